"""`rewards`: how completions are scored."""

from typing import Annotated, Any

from pydantic import Field

from grpo_recipes.schemas.section import Section, Word

FUNCTION = r"^[^:]+\.py:[A-Za-z_][A-Za-z0-9_]*$"
REWARD = r"^([^:]+\.py|[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*):[A-Za-z_][A-Za-z0-9_]*$"


class RewardSection(Section):
    """One reward, with exactly one of name, python and model."""

    name: Word | None = None
    """A shipped reward: accuracy, completion_length, countdown, exact_match, follows_instruction, function_calls,
    json_fields, reasoning_gym, regex_match, tag_format, valid_json."""
    python: Annotated[str, Field(pattern=REWARD)] | None = None
    """Your function, `file.py:function`, relative to this file, or `module:function` of an installed package. It only
    runs with your consent, except for `trl.rewards`.
    """
    model: Word | None = None
    """A reward model (sequence classification with one label): hub id or folder."""
    weight: float = 1.0
    """Factor in the weighted sum of all rewards."""
    options: dict[str, Any] = {}
    """Keyword arguments of the function, e.g. {pattern: '...'}, or of the package function that makes it."""
