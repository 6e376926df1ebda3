"""`rewards`: what a completion is worth."""

from typing import Annotated, Any

from pydantic import Field

from grpo_recipes.schemas.section import Section, Word

FUNCTION = r"^[^:]+\.py:[A-Za-z_][A-Za-z0-9_]*$"


class RewardSection(Section):
    """One reward: exactly one of name, python and model says which."""

    name: Word | None = None
    """A shipped reward: accuracy, completion_length, countdown, exact_match, follows_instruction, function_calls,
    json_fields, regex_match, tag_format, valid_json."""
    python: Annotated[str, Field(pattern=FUNCTION)] | None = None
    """Your function, `file.py:function`, relative to the file that says it. It runs only when allowed."""
    model: Word | None = None
    """A reward model (sequence classification with one label): hub id or folder."""
    weight: float = 1.0
    """Factor in the weighted sum of all rewards."""
    options: dict[str, Any] = {}
    """Keyword arguments of the function, e.g. {pattern: '...'}."""
