"""1.0 for a completion that matches a regular expression."""

import re

from grpo_recipes.contract.patterns import ask_once
from grpo_recipes.rewards.completion_text import Completion, completion_text

SECONDS = 20
"""CPU seconds for matching all completions of a batch."""


def regex_match(
    completions: list[Completion], *, pattern: str, full: bool | None = False, **kwargs: object
) -> list[float | None]:
    """Gives 1.0 to a completion in which `pattern` is found, else 0.0.

    pattern: Python's regular expression syntax; flags are written inside, as in (?is).
    full: the pattern must match the whole completion, not a part of it.
    Raises ValueError if the pattern cannot be compiled, TimeoutError if it takes too long for a completion.
    """
    if not completions:
        _compile(pattern)
        return []
    texts = [completion_text(completion) for completion in completions]
    asked = ask_once([pattern], texts, "fullmatch" if full else "search", SECONDS)[0]
    if asked.slow:
        raise TimeoutError(f"regex_match: the pattern {pattern!r} takes too long for a completion: {asked.slow}")
    if len(asked.finds) == len(texts) and not asked.problem:
        return [float(is_match) for is_match in asked.finds]
    compiled = _compile(pattern)
    match = compiled.fullmatch if full else compiled.search
    return [float(match(text) is not None) for text in texts]


def _compile(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as problem:
        raise ValueError(f"regex_match: pattern {pattern!r} is not a regular expression: {problem}") from None
