"""1.0 for a completion that is JSON."""

import json
import re
from collections.abc import Sequence

from grpo_recipes.rewards.completion_text import Completion, completion_text

FENCED = re.compile(r"```(?:json|JSON)?[ \t]*\n(.*?)```", re.S)


def valid_json(
    completions: list[Completion], *, required_keys: Sequence[str] = (), **kwargs: object
) -> list[float | None]:
    """Gives 1.0 to a completion that is JSON, or whose first fenced block is, else 0.0.

    required_keys: if there are any, the JSON must be an object that has them all. NaN and Infinity are not
    JSON.
    """
    return [float(_is_wanted_json(completion_text(completion), required_keys)) for completion in completions]


def _is_wanted_json(text: str, required_keys: Sequence[str]) -> bool:
    fenced = FENCED.search(text)
    try:
        value = json.loads(fenced.group(1) if fenced else text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return False
    return not required_keys or (isinstance(value, dict) and all(key in value for key in required_keys))


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
