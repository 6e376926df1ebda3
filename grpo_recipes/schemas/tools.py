"""`tools`, `environment` and `rollout`: code that takes part in completions."""

from typing import Annotated, Any

from pydantic import Field

from grpo_recipes.schemas.reward import FUNCTION
from grpo_recipes.schemas.section import PositiveFloat, Section


class ToolSection(Section):
    """One function that the model can call; the model sees its name, type hints and docstring."""

    python: Annotated[str, Field(pattern=FUNCTION)]
    """Your function, `file.py:function`, relative to this file. Each parameter needs a type hint and a line under
    `Args:` in the docstring. It only runs with your consent.
    """
    timeout: PositiveFloat = 10.0
    """Seconds that a call may take; after that the model gets an error."""


class EnvironmentSection(Section):
    """A class whose methods the model can call while it answers. Each completion has its own object, and so its own
    state.
    """

    python: Annotated[str, Field(pattern=FUNCTION)]
    """Your class, `file.py:Class`, relative to this file. TRL calls its `reset` with the columns of a row before each
    completion; its other public methods are tools, and its `get_reward`, if any, is an additional reward. It only runs
    with your consent.
    """
    config: dict[str, Any] = {}
    """Keyword arguments for each object, e.g. {size: 4}."""
    timeout: PositiveFloat = 10.0
    """Seconds that a call of a method may take; after that the model gets an error. A reset that takes longer ends the
    run.
    """


class RolloutSection(Section):
    """A function that makes the completions instead of TRL."""

    python: Annotated[str, Field(pattern=FUNCTION)]
    """Your function, `file.py:function`, relative to this file. It takes the prompts and the trainer, and returns the
    tokens of prompts and completions with their log-probs. It only runs with your consent.
    """
