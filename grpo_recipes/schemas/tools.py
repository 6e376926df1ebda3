"""`tools`, `environment` and `rollout`: what completions are made with beside the model."""

from typing import Annotated, Any

from pydantic import Field

from grpo_recipes.schemas.reward import FUNCTION
from grpo_recipes.schemas.section import PositiveFloat, Section


class ToolSection(Section):
    """One function that the model can call; its name, type hints and docstring are what the model is told of it."""

    python: Annotated[str, Field(pattern=FUNCTION)]
    """Your function, `file.py:function`, relative to the file that says it. Each parameter has a type hint and a line
    under `Args:` in the docstring. It runs only when allowed."""
    timeout: PositiveFloat = 10.0
    """Seconds that a call may take; then the model is told that it failed."""


class EnvironmentSection(Section):
    """A class whose methods the model can call while it answers: each completion has an object of it, and so a state
    of its own."""

    python: Annotated[str, Field(pattern=FUNCTION)]
    """Your class, `file.py:Class`, relative to the file that says it. Its `reset` is called with the columns of a row
    before each completion, its other public methods are tools, and its `get_reward`, if it has one, is one more reward.
    It runs only when allowed."""
    config: dict[str, Any] = {}
    """Keyword arguments that each object is made with, e.g. {size: 4}."""
    timeout: PositiveFloat = 10.0
    """Seconds that a call of a method may take; then the model is told that it failed. A reset that takes longer ends
    the run."""


class RolloutSection(Section):
    """A function that makes the completions instead of TRL."""

    python: Annotated[str, Field(pattern=FUNCTION)]
    """Your function, `file.py:function`, relative to the file that says it. It takes the prompts and the trainer, and
    returns the tokens of prompts and completions with their log-probs. It runs only when allowed."""
