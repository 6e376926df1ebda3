"""`preflight`: scripted turns that replace the model before the training."""

from typing import Annotated, Any

from pydantic import Field

from grpo_recipes.schemas.section import Section, Word


class TurnSection(Section):
    """One turn of the model: a call of a tool, or its final answer."""

    tool: Word | None = None
    """The tool to call, by the name of its function or of the environment's method."""
    arguments: dict[str, Any] = {}
    """Its arguments, by parameter name."""
    answer: str | None = None
    """The model's final text, which ends the completion."""


class PreflightSection(Section):
    """What `grpo-run preflight` plays; a training ignores it."""

    turns: Annotated[list[TurnSection], Field(max_length=64)] = []
    """A completion, turn by turn: calls, which the tools answer, and an answer; the rewards score all of it. Empty: a
    call of each tool, and the right answer of a row.
    """
