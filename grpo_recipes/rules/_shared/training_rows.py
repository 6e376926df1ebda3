"""What is known about the rows that a recipe trains on, for rules."""

import os
from collections.abc import Iterator, Mapping

from grpo_recipes.contract.findings.finding import Path
from grpo_recipes.contract.tasks import COLUMNS
from grpo_recipes.rules._shared.context import Context, NotJudged
from grpo_recipes.rules._shared.settings import Setting
from grpo_recipes.user_files.local_files import columns_of, local_path
from grpo_recipes.user_files.local_rows import first_row

EPISODE = "episode"
"""The column in the rows of an environment that owns its data."""


def are_episodes(context: Context) -> bool:
    """Whether an environment owns the data, so that the rows are numbered episodes."""
    owns = context.value("dataset.path") is None and context.has_section("environment")
    return owns and not makes_rows(context) and not context.items("datasets")


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
    return _file_at(context, "dataset.path")


def _file_at(context: Context, key: str) -> str | None:
    if context.value(key) is None:
        return None
    path = local_path(context.text(key), context.source.directory(context.path(key)))
    return path if path is not None and os.path.isfile(path) else None


def own_columns(context: Context) -> frozenset[str] | None:
    """The columns of the data itself, without those of `dataset.columns`; None if unknown."""
    if are_episodes(context):
        return frozenset((EPISODE,))
    if makes_rows(context):
        return frozenset(COLUMNS)
    return columns_at(context, "dataset.path")


def columns_at(context: Context, key: str) -> frozenset[str] | None:
    """The columns of the local file that a key names; None if unknown."""
    path = _file_at(context, key)
    try:
        own = columns_of(path) if path is not None else None
    except (OSError, ValueError):
        return None
    return None if own is None else frozenset(own)


def is_of_the_hub(context: Context, key: str) -> bool:
    """Whether a key names a data set of the hub, whose columns are unknown before it is downloaded."""
    setting = context.settings.get(key)
    if setting is None or setting.refused or not isinstance(setting.value, str):
        return False
    return local_path(setting.value, context.source.directory(context.path(key))) is None


def first_row_of(context: Context) -> Mapping[str, object] | None:
    """The first row of a local .jsonl file, None if unknown."""
    path = data_file(context)
    return first_row(path) if path is not None else None


def image_columns(context: Context) -> tuple[str, ...]:
    """The columns that `dataset.images` names, () without images."""
    named = context.value("dataset.images")
    return tuple(map(str, named)) if isinstance(named, list) else () if named is None else (str(named),)


def columns_for_rewards(context: Context, own: frozenset[str]) -> frozenset[str]:
    """The columns that rewards get of data with these: named columns of images become `images`."""
    named = image_columns(context)
    return (own - {*named}) | {"images"} if named else own


def is_conversational(context: Context) -> bool | None:
    """Whether prompts are messages for TRL; None if the rows have a prompt of an unknown kind."""
    if context.value("dataset.prompt") is not None or makes_rows(context):
        return context.value("dataset.prompt_format") == "conversational"
    row = first_row_of(context)
    if row is None or "prompt" not in row:
        return None
    return isinstance(row["prompt"], list)


SETS, DECIDED_BY = "evaluation.sets", "evaluation.decided_by"
_OF_PROMPTS = ("prompt", "columns")
_REWARDS, _PASSES = "evaluation.rewards", "evaluation.passes"


def held_out_sets(context: Context) -> Iterator[tuple[str, Context]]:
    """Each set of held-out rows by name, with the context of a recipe that has it alone, the one that decides first.

    What a set says is at the keys of `evaluation`, of its prompts at those of `dataset`. A single set has the name "".
    """
    sets = context.mapping(SETS) if context.has_section("evaluation") else {}
    if context.has_section("evaluation") and not sets:
        yield "", context
    for name in sorted(sets, key=lambda name: name != context.value(DECIDED_BY)):
        own = sets[name]
        if isinstance(own, Mapping):
            is_same = own["passes"] is None and _is_judged_by_the_same(context, own)
            left_out = ("evaluation.reasoning_gym.", *([] if is_same else [f"{_PASSES}."]))
            settings = context.settings.without([key for key in context.settings if key.startswith(left_out)])
            yield name, context._replace(settings=settings.having(_of_set(context, name, own)))


def sections_of_rows(context: Context) -> Iterator[tuple[str, Context]]:
    """The sections that have rows, dataset and then evaluation for each set, with the context that it is judged in."""
    if context.has_section("dataset"):
        yield "dataset", context
    yield from (("evaluation", of_set) for _, of_set in held_out_sets(context))


def rewards_of_set(context: Context) -> list[str]:
    """The rewards that judge the set of a context of `held_out_sets`, [] for all."""
    setting = context.settings.get(_REWARDS)
    return list(setting.value) if setting is not None and isinstance(setting.value, list) else []


def _is_judged_by_the_same(context: Context, own: Mapping[str, object]) -> bool:
    rewards = own["rewards"]
    return not rewards or f"{_PASSES}.reward" not in context.settings or context.value(f"{_PASSES}.reward") in rewards  # type: ignore[operator]


def _of_set(context: Context, name: str, own: Mapping[str, object]) -> Iterator[Setting]:
    for key, value in own.items():
        path: Path = ("evaluation", "sets", name, key)
        section = "dataset" if key in _OF_PROMPTS else "evaluation"
        if value is not None or key not in (*_OF_PROMPTS, "passes"):
            yield _setting(context, f"{section}.{key}", value, path)
        if isinstance(value, Mapping) and key not in _OF_PROMPTS:
            for word, inner in value.items():
                yield _setting(context, f"{section}.{key}.{word}", inner, (*path, word))


def _setting(context: Context, key: str, value: object, path: Path) -> Setting:
    given = path in context.source.marks and value is not None
    refused = any(prefix == path[: len(prefix)] for prefix in context.refused)
    return Setting(key, value, SETS, path=path, given=given, refused=refused)
