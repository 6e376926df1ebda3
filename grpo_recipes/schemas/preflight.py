"""`preflight`: what is played in the place of the model before it is trained."""

from typing import Annotated, Any

from pydantic import Field

from grpo_recipes.schemas.section import Section, Word


class TurnSection(Section):
    """One turn of the model: a call of a tool, or its last words."""

    tool: Word | None = None
    """The tool that is called, by the name of its function; a method of the environment."""
    arguments: dict[str, Any] = {}
    """What it is called with, by the names of its parameters."""
    answer: str | None = None
    """What the model says when it calls nothing more; the completion ends with it."""


class PreflightSection(Section):
    """What `grpo-run preflight` plays; a training reads none of it."""

    turns: Annotated[list[TurnSection], Field(max_length=64)] = []
    """A completion, turn by turn: calls, which the tools answer, and an answer; rewards judge all of it. Empty makes
    one: a call of each tool, and the right answer of a row."""
