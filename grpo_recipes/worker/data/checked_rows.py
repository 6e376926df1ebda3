"""Checks of rows that could be read: their own prompts, and the names of their environments."""

from collections.abc import Iterator, Sequence
from typing import Any

from grpo_recipes.contract.plan import Data
from grpo_recipes.contract.prompt_shape import wrong_prompt
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.data.images import wrong_prompt_for_images

_AT_ONCE = 1000


ENVIRONMENT = "environment"


def check_prompts(rows: Any, data: Data, where: str, places: Sequence[int]) -> None:
    """Raises Refused for a prompt in the data that TRL does not accept."""
    for index, prompt in zip(places, _values(rows, "prompt"), strict=True):
        if reason := wrong_prompt(prompt) or (wrong_prompt_for_images(prompt) if data.images else None):
            raise Refused.of(
                f"{where}: the prompt of row {index + 1} cannot be used",
                because=reason,
                fix=f"leave such rows out of {data.path}, or make their prompts with {where}.prompt",
            )


def check_environments(rows: Any, data: Data, where: str, places: Sequence[int]) -> None:
    """Raises Refused for a row whose environment is not in the plan."""
    if not data.environments:
        return
    known = ", ".join(data.environments)
    if ENVIRONMENT not in rows.column_names:
        raise Refused.of(
            f"{where}: the rows have no column `{ENVIRONMENT}`",
            because=f"it names each row's environment: {known}",
            fix=f'{where}.columns: {{{ENVIRONMENT}: "{data.environments[0]}"}}, or a template over the row',
        )
    for index, name in zip(places, _values(rows, ENVIRONMENT), strict=True):
        if name not in data.environments:
            raise Refused.of(
                f"{where}: row {index + 1} has the environment {name!r}",
                because=f"the environments are {known}",
                fix=f"correct its column `{ENVIRONMENT}`, or leave such rows out with a filter",
            )


def _values(rows: Any, column: str) -> Iterator[Any]:
    """Yields the values of a column, read in batches: rows[column] takes six times as long."""
    for batch in rows.select_columns(column).iter(_AT_ONCE):
        yield from batch[column]
