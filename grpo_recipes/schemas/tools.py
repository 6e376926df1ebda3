"""`tools`: functions that the model calls while it answers."""

from typing import Annotated

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
