"""`rewards`: what a completion is worth."""

from typing import Annotated, Any

from pydantic import Field

from grpo_recipes.schemas.section import Section, Word

FUNCTION = r"^[^:]+\.py:[A-Za-z_][A-Za-z0-9_]*$"
REWARD = r"^([^:]+\.py|[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*):[A-Za-z_][A-Za-z0-9_]*$"


class RewardSection(Section):
    """One reward: exactly one of name, python and model says which."""

    name: Word | None = None
    """A shipped reward: accuracy, completion_length, countdown, exact_match, follows_instruction, function_calls,
    json_fields, reasoning_gym, regex_match, tag_format, valid_json."""
    python: Annotated[str, Field(pattern=REWARD)] | None = None
    """Your function, `file.py:function`, relative to the file that says it, or `module:function` of an installed
    package. It runs only when allowed; those of `trl.rewards` are."""
    model: Word | None = None
    """A reward model (sequence classification with one label): hub id or folder."""
    weight: float = 1.0
    """Factor in the weighted sum of all rewards."""
    options: dict[str, Any] = {}
    """Keyword arguments of the function, e.g. {pattern: '...'}, or of what makes it in a package."""
