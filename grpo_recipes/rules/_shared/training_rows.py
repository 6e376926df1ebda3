"""What is known about the rows that a recipe trains on, for rules."""

import os
from collections.abc import Mapping

from grpo_recipes.contract.tasks import COLUMNS
from grpo_recipes.rules._shared.context import Context, NotJudged
from grpo_recipes.user_files.local_files import columns_of, local_path
from grpo_recipes.user_files.local_rows import first_row

EPISODE = "episode"
"""The column in the rows of an environment that owns its data."""


def are_episodes(context: Context) -> bool:
    """Whether an environment owns the data, so that the rows are numbered episodes."""
    owns = context.value("dataset.path") is None and context.has_section("environment")
    return owns and not makes_rows(context)


def makes_rows(context: Context, section: str = "dataset") -> bool:
    """Whether tasks make the rows of a section, instead of a file."""
    return f"{section}.reasoning_gym.size" in context.settings


def tasks(context: Context) -> list[dict[str, object]]:
    """The tasks that make the rows, each with name, weight and config. Raises NotJudged for anything else."""
    several = context.value("dataset.reasoning_gym.tasks") or [
        {"name": context.value("dataset.reasoning_gym.name"), "config": context.value("dataset.reasoning_gym.config")}
    ]
    if not isinstance(several, list) or not all(isinstance(task.get("name"), str) for task in several):
        raise NotJudged("dataset.reasoning_gym")
    return [
        {"name": task["name"], "weight": task.get("weight", 1), "config": dict(task.get("config") or {})}
        for task in several
    ]


def data_file(context: Context) -> str | None:
    """The absolute path of the local file of `dataset.path`; None for all other data, and a missing file."""
    if context.value("dataset.path") is None:
        return None
    path = local_path(context.text("dataset.path"), context.source.directory(("dataset", "path")))
    return path if path is not None and os.path.isfile(path) else None


def own_columns(context: Context) -> frozenset[str] | None:
    """The columns of the data itself, without those of `dataset.columns`; None if unknown."""
    if are_episodes(context):
        return frozenset((EPISODE,))
    if makes_rows(context):
        return frozenset(COLUMNS)
    path = data_file(context)
    try:
        own = columns_of(path) if path is not None else None
    except (OSError, ValueError):
        return None
    return None if own is None else frozenset(own)


def first_row_of(context: Context) -> Mapping[str, object] | None:
    """The first row of a local .jsonl file, None if unknown."""
    path = data_file(context)
    return first_row(path) if path is not None else None


def is_conversational(context: Context) -> bool | None:
    """Whether prompts are messages for TRL; None if the rows have a prompt of an unknown kind."""
    if context.value("dataset.prompt") is not None or makes_rows(context):
        return context.value("dataset.prompt_format") == "conversational"
    row = first_row_of(context)
    if row is None or "prompt" not in row:
        return None
    return isinstance(row["prompt"], list)
