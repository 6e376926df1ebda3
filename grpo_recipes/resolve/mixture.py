"""Presents each source of a mixture as the `dataset`, the only form that rules and planning know."""

import re
from collections.abc import Mapping, Sequence

from grpo_recipes.contract.findings.finding import Finding, Path, value_at
from grpo_recipes.contract.prompt_shape import SOURCE_NAME
from grpo_recipes.resolve.recipe_phase import setting_of, settings_of
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.settings import Setting, Settings
from grpo_recipes.schemas.fast_accept import SectionValues, section_keys
from grpo_recipes.user_files.reward_imports import reward_names

MIXTURE, ONE = "datasets", "dataset"
HELD_OUT = "held out"
"""The name of the source of held-out rows, which no source can have."""


def of_sources(context: Context) -> list[Context]:
    """The context once for each source of a mixture, with the source as its `dataset`; unchanged for other recipes, and
    if there is also a `dataset`, which a rule refuses.

    A source has the rewards that judge it, and its name as a column. It has no held-out rows; see of_held_out.
    """
    written = context.source.values
    is_one = isinstance(written.get(MIXTURE), list) and not written.get(ONE) and (MIXTURE,) not in context.refused
    items = context.items(MIXTURE) if is_one else []
    return [_of_source(context, index, item) for index, item in enumerate(items)] or [context]


def _of_source(context: Context, index: int, item: Mapping[str, object]) -> Context:
    def path_in_part(path: Path) -> Path | None:
        if path[:2] == (MIXTURE, index):
            return (ONE, *path[2:])
        if path[:1] == ("rewards",) and len(path) > 1:
            return ("rewards", judging.index(path[1]), *path[2:]) if path[1] in judging else None
        return path

    rewards = context.items("rewards")
    names = reward_names(rewards)
    judging = _judging(names, item)
    source, written = context.source, value_at(context.source.values, (MIXTURE, index))
    marks = {path: mark for path, mark in source.marks.items() if path[:1] != ("rewards",)}
    marks |= {target: mark for path, mark in source.marks.items() if (target := path_in_part(path)) is not None}
    values = {**source.values, ONE: written, "rewards": [rewards[judge] for judge in judging]}
    refused = context.refused | {target for path in context.refused if (target := path_in_part(path)) is not None}
    values.pop("evaluation", None)
    source = source._replace(values=values, marks=marks)
    settings = [
        setting for setting in context.settings.values() if not setting.key.startswith((f"{ONE}.", "evaluation"))
    ]
    named = {**item["columns"], SOURCE_NAME: str(item["source"])}  # type: ignore[dict-item]
    of_one = {key: item[key] for key in section_keys()[ONE]} | {"columns": named}
    settings += settings_of((ONE,), SectionValues(of_one), source, refused)
    settings += [setting_of((MIXTURE, key), item[key], source, refused) for key in item if key not in of_one]
    if "rewards" in context.settings:
        settings.append(context.settings["rewards"]._replace(value=values["rewards"]))
    return context._replace(settings=Settings(settings), source=source, refused=refused, written=context.settings)


def of_held_out(context: Context) -> Context:
    """The context for judging the held-out rows of a mixture; unchanged for other recipes.

    They become prompts as those of its first source do, and are judged by its rewards unless a set names others.
    """
    first = of_sources(context)[0]
    if first is context:
        return context
    names = reward_names(context.items("rewards"))
    judging = [names[index] for index in _judging(names, context.items(MIXTURE)[0])]
    columns = first.settings[f"{ONE}.columns"]
    written = (setting for setting in context.settings.values() if setting.key.startswith(("evaluation", "rewards")))
    changed = [
        *written,
        Setting("evaluation.rewards", judging if len(judging) < len(names) else [], MIXTURE),
        columns._replace(value={**first.mapping(columns.key), SOURCE_NAME: HELD_OUT}),
    ]
    values = {ONE: first.source.values[ONE], **context.source.values}
    marks = {**first.source.marks, **context.source.marks}
    source = context.source._replace(values=values, marks=marks)
    return first._replace(settings=first.settings.having(changed), source=source)


def _judging(names: Sequence[str], item: Mapping[str, object]) -> list[int]:
    """The indexes of the rewards that judge a source; all if it names an unknown one."""
    own = item["rewards"]
    judges = set(own) if isinstance(own, list) and set(own) <= set(names) else set(names)
    return [index for index, name in enumerate(names) if name in judges]


SEVERAL, ENVIRONMENT = "environments", "environment"


def of_environments(context: Context) -> list[Context]:
    """The context once for each of its `environments`, as its `environment`; unchanged for other recipes.

    If the column `environment` is the same text for all rows, only that environment is used.
    """
    written = context.source.values
    is_list = isinstance(written.get(SEVERAL), list) and not written.get(ENVIRONMENT)
    items = context.items(SEVERAL) if is_list and (SEVERAL,) not in context.refused else []
    if not items:
        return [context]
    columns = context.settings.get(f"{ONE}.columns")
    named = columns.value.get(ENVIRONMENT) if columns is not None and isinstance(columns.value, Mapping) else None
    chosen = [index for index, item in enumerate(items) if item["name"] == named] or range(len(items))
    return [_of_environment(context, index, items[index]) for index in chosen]


def _of_environment(context: Context, index: int, item: Mapping[str, object]) -> Context:
    def path_in_part(path: Path) -> Path | None:
        return (ENVIRONMENT, *path[2:]) if path[:2] == (SEVERAL, index) and path[2:] != ("name",) else None

    source, of_one = context.source, {key: item[key] for key in section_keys()[ENVIRONMENT]}
    marks = {**source.marks, **{there: mark for path, mark in source.marks.items() if (there := path_in_part(path))}}
    written = value_at(source.values, (SEVERAL, index))
    source = source._replace(values={**source.values, ENVIRONMENT: written}, marks=marks)
    refused = context.refused | {there for path in context.refused if (there := path_in_part(path))}
    settings = context.settings.having([*settings_of((ENVIRONMENT,), SectionValues(of_one), source, refused)])
    return context._replace(settings=settings, source=source, refused=refused)


def of_all_environments(by_environment: Sequence[Sequence[Finding]], views: Sequence[Context]) -> list[Finding]:
    """The findings for each environment, under its own keys; merged if several environments share one."""
    merged: dict[tuple[str, str, str], Finding] = {}
    for view, findings in zip(views, by_environment, strict=True):
        written = view.source.values[SEVERAL]
        assert isinstance(written, list)
        index = written.index(view.source.values[ENVIRONMENT])
        for finding in findings:
            patch = tuple(
                each._replace(path=(SEVERAL, index, *each.path[1:])) if each.path[:1] == (ENVIRONMENT,) else each
                for each in finding.patch
            )
            key = re.sub(rf"^{ENVIRONMENT}(?=\.|$)", f"{SEVERAL}[{index}]", finding.key)
            back = finding._replace(key=key, patch=patch)
            merged.setdefault((back.rule, back.message, back.key), back)
    return list(merged.values())


def of_mixture(by_source: Sequence[Sequence[Finding]], context: Context) -> list[Finding]:
    """The findings of all sources as findings of their mixture: one if all share it, else with the source's name."""
    merged: dict[tuple[str, str, str], Finding] = {}
    for index, (item, findings) in enumerate(zip(context.items(MIXTURE), by_source, strict=True)):
        judging = _judging(reward_names(context.items("rewards")), item)
        for finding in findings:
            is_shared = all(any(_same(finding, other) for other in others) for others in by_source)
            back = _back(finding, index, judging)
            if not is_shared and not finding.key.startswith(MIXTURE):
                back = back._replace(message=f"source {item['source']}: {back.message}")
            merged.setdefault((back.rule, back.message, back.key), back)
    return list(merged.values())


def _same(a: Finding, b: Finding) -> bool:
    return (a.rule, a.message, a.key, a.mark) == (b.rule, b.message, b.key, b.mark)


def _back(finding: Finding, index: int, judging: Sequence[int]) -> Finding:
    """Moves a finding from `dataset` to the source that it represents."""
    here = f"{MIXTURE}[{index}]"

    def path_in_whole(path: Path) -> Path:
        if path[:1] == (ONE,):
            return (MIXTURE, index, *path[1:])
        if path[:1] == ("rewards",) and len(path) > 1 and isinstance(path[1], int):
            return ("rewards", judging[path[1]], *path[2:])
        return path

    named = rf"(?<![\w./-])dataset(?=\.({'|'.join(section_keys()[ONE])})\b|`)|(?<=under )dataset\b"

    def restore_words(text: str) -> str:
        return re.sub(named, here, text)

    return finding._replace(
        message=restore_words(finding.message),
        key=re.sub(rf"^{ONE}(?=\.|$)", here, finding.key),
        because=tuple(map(restore_words, finding.because)),
        fix=None if finding.fix is None else restore_words(finding.fix),
        patch=tuple(patch._replace(path=path_in_whole(patch.path)) for patch in finding.patch),
    )
