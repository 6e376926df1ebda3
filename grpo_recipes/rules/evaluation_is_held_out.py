"""Evaluation uses rows that are not trained on.

Evaluating the same split of the same path would measure memorization. A file has only the split train, so evaluation
needs a second file. Rows of a mixture's sources are not held out.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from grpo_recipes.contract.findings.finding import Finding, Patch, Path
from grpo_recipes.contract.tasks import HARBOR
from grpo_recipes.rules._shared.context import Context, NotJudged
from grpo_recipes.rules._shared.training_rows import held_out_sets, makes_rows, spec_with_rows
from grpo_recipes.user_files.local_files import data_format, local_path

ID = "EVL001"


def check(context: Context) -> Iterator[Finding]:
    for name, of_set in held_out_sets(context):
        yield from _of_set(name, of_set)


def _of_set(name: str, context: Context) -> Iterator[Finding]:
    if makes_rows(context, "evaluation"):
        return
    own_path = context.value("evaluation.path")
    held_out = None if own_path is None else _place(context, context.path("evaluation.path"), own_path)
    for path, data in _trained(context):
        if held_out is not None and (data["path"] is None or _place(context, path, data["path"]) != held_out):
            continue
        same_name = context.value("evaluation.name") in (None, data["name"])
        split = context.value("evaluation.split") or ("train" if own_path is not None else data["split"])
        if same_name and split == data["split"]:
            spec = spec_with_rows(context)
            is_file = spec == HARBOR or (spec is None and data_format(_place(context, path, data["path"])) is not None)
            other = "train" if split == "test" else "test"
            yield context.finding(
                f"{name or 'evaluation'} uses the rows that are trained on",
                "evaluation.split" if context.given("evaluation.split") or name else "evaluation",
                f"both take split {split} of {data['path'] or spec}",
                fix="path: a second file, with rows that are not trained on" if is_file else f"split: {other}",
                patch=[] if is_file else [Patch(context.path("evaluation.split"), other)],
            )
            return


def _trained(context: Context) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """What is trained on, and where its path is written: the data, or each source of a mixture."""
    sources = context.items("datasets")
    yield from ((("datasets", index, "path"), source) for index, source in enumerate(sources))
    if not sources:
        keys = ("path", "name", "split")
        yield context.path("dataset.path"), {key: context.value(f"dataset.{key}") for key in keys}


def _place(context: Context, path: Path, value: object) -> str:
    """The absolute path of local data, or the hub id."""
    if not isinstance(value, str):
        raise NotJudged("dataset.path")
    return local_path(value, context.source.directory(path)) or value
