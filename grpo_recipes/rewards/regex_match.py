"""1.0 for a completion that matches a regular expression."""

import re

from grpo_recipes.rewards.completion_text import Completion, completion_text


def regex_match(
    completions: list[Completion], *, pattern: str, full: bool = False, **kwargs: object
) -> list[float | None]:
    """Gives 1.0 to a completion in which `pattern` is found, else 0.0.

    pattern: Python's regular expression syntax; flags are written inside, as in (?is).
    full: the pattern must match the whole completion, not a part of it.
    Raises re.error if the pattern cannot be compiled.
    """
    compiled = re.compile(pattern)
    match = compiled.fullmatch if full else compiled.search
    return [float(match(completion_text(completion)) is not None) for completion in completions]
