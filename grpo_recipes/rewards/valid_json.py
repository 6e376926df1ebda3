"""1.0 for a completion that is JSON."""

from collections.abc import Sequence

from grpo_recipes.rewards.completion_text import Completion, completion_json, completion_text


def valid_json(
    completions: list[Completion], *, required_keys: Sequence[str] | None = (), **kwargs: object
) -> list[float | None]:
    """Gives 1.0 to a completion that is JSON, or whose first fenced block is, else 0.0.

    required_keys: if there are any, the JSON must be an object that has them all. NaN and Infinity are not
    JSON.
    """
    return [float(_is_wanted_json(completion_text(completion), required_keys)) for completion in completions]


def _is_wanted_json(text: str, required_keys: Sequence[str] | None) -> bool:
    try:
        value = completion_json(text)
    except ValueError:
        return False
    return not required_keys or (isinstance(value, dict) and all(key in value for key in required_keys))
