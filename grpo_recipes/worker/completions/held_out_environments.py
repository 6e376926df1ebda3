"""The environments of held-out rows: an object for each completion, made for it and reset with its row, as TRL does it.

They are other objects than those of the training, so that an evaluation leaves these as they were.
"""

from collections.abc import Callable
from typing import Any

_FACTORY = "held_out_environment"

Row = dict[str, Any]


def answer_held_out_rows_with(trainer: Any, factory: Callable[[], Any] | None) -> None:
    """From now on held-out rows have objects of this environment; None for a training without one."""
    setattr(trainer, _FACTORY, factory)


def has_environments(trainer: Any) -> bool:
    """Whether completions of held-out rows have an environment each."""
    return getattr(trainer, _FACTORY, None) is not None


def with_environments(trainer: Any, rows: list[Row]) -> tuple[list[Row], list[Any] | None]:
    """The rows with what their environments say at the reset behind their prompts, and these; None without any."""
    factory = getattr(trainer, _FACTORY, None)
    if factory is None:
        return rows, None
    environments = [factory() for _ in rows]
    return [_reset(one, row) for one, row in zip(environments, rows, strict=True)], environments


def _reset(environment: Any, row: Row) -> Row:
    """Source: trl 1.16.0 grpo_trainer.py (_generate_and_score_completions)."""
    observation = environment.reset(**row)
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
    """The methods of an object that the policy can call: those of the training's objects, by their names."""
    names = {tool.__name__ for tool in trainer.tools if type(getattr(tool, "__self__", None)) is type(environment)}
    return [getattr(environment, name) for name in sorted(names)]
