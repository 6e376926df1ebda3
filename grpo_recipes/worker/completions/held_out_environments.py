"""Environments of held-out rows: one object per completion, created and reset with its row as TRL does.

They are separate from the training's objects, so an evaluation does not change those.
"""

from collections.abc import Callable
from typing import Any

# The column with that name.
NAMES = "environment"

_FACTORY = "held_out_environment"

Row = dict[str, Any]
Factories = Callable[[], Any] | dict[str, Callable[[], Any]]


def answer_held_out_rows_with(trainer: Any, factory: Factories | None) -> None:
    """Uses this environment class, or these, for held-out rows from now on; None without environments."""
    setattr(trainer, _FACTORY, factory)


def has_several(trainer: Any) -> bool:
    """Whether there are several environments, so that each row names its own."""
    return isinstance(getattr(trainer, _FACTORY, None), dict)


def has_environments(trainer: Any) -> bool:
    """Whether each completion of held-out rows has an environment."""
    return getattr(trainer, _FACTORY, None) is not None


def with_environments(trainer: Any, rows: list[Row]) -> tuple[list[Row], list[Any] | None]:
    """Returns the rows with their environments' reset texts appended to the prompts, and the environments, or None."""
    factory = getattr(trainer, _FACTORY, None)
    if factory is None:
        return rows, None
    own = [factory[row[NAMES]] if isinstance(factory, dict) else factory for row in rows]
    environments = [make() for make in own]
    without = {NAMES} if isinstance(factory, dict) else set()
    return [_reset(*pair, without) for pair in zip(environments, rows, strict=True)], environments


def _reset(environment: Any, row: Row, without: set[str]) -> Row:
    """Resets an environment with its row. without: columns that it does not get.

    Source: trl's grpo_trainer.py (_generate_and_score_completions).
    """
    observation = environment.reset(**{name: value for name, value in row.items() if name not in without})
    if observation is None:
        return row
    *before, last = row["prompt"]
    content = last["content"]
    if isinstance(observation, list) and isinstance(content, str):
        content = [{"type": "text", "text": content}]
    if isinstance(observation, str) and isinstance(content, list):
        observation = [{"type": "text", "text": observation}]
    return {**row, "prompt": [*before, {**last, "content": content + observation}]}


def methods_of(trainer: Any, environment: Any) -> list[Any]:
    """Returns the methods of an object that the policy can call, by the names of the training's tools."""
    names = {tool.__name__ for tool in trainer.tools if type(getattr(tool, "__self__", None)) is type(environment)}
    return [getattr(environment, name) for name in sorted(names)]
