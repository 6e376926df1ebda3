"""Evaluation uses rows that are not trained on.

Evaluating the same split of the same path would measure memorization. A file has only the split train, so evaluation
needs a second file. Rows of a mixture's sources are not held out. `datasets` reads train[:5%] as a slice of the split
train, so these rows are trained on too, unless the training takes train[5%:]. Slices are compared if max_rows and
filter choose no other rows.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from grpo_recipes.contract.findings.finding import Finding, Patch, Path
from grpo_recipes.rules._shared.context import Context, NotJudged
from grpo_recipes.rules._shared.training_rows import held_out_sets, makes_rows
from grpo_recipes.user_files.local_files import data_format, local_path

ID = "EVL001"
_OTHER_FILE = "path: a second file, with rows that are not trained on"


def check(context: Context) -> Iterator[Finding]:
    for name, of_set in held_out_sets(context):
        yield from _of_set(name, of_set)


def _of_set(name: str, context: Context) -> Iterator[Finding]:
    if makes_rows(context, "evaluation"):
        return
    own_path = context.value("evaluation.path")
    held_out = None if own_path is None else _place(context, context.path("evaluation.path"), own_path)
    for path, data in _training_data(context):
        if data["path"] is None:
            continue  # episodes, whose numbers differ
        if held_out is not None and _place(context, path, data["path"]) != held_out:
            continue
        is_file = data_format(_place(context, path, data["path"])) is not None
        same_name = context.value("evaluation.name") in (None, data["name"])
        split = context.value("evaluation.split") or ("train" if own_path is not None else data["split"])
        if same_name and split != data["split"] and overlap(str(split), str(data["split"])) and not _chooses(data):
            yield context.finding(
                f"{name or 'evaluation'} uses rows that are trained on: {split} is part of {data['split']}",
                "evaluation.split" if context.is_given("evaluation.split") or name else "evaluation",
                f"both are rows of {data['path']}",
                fix=_OTHER_FILE
                if is_file
                else "slices without common rows, such as split: train[5%:] to train on, and train[:5%] to evaluate",
            )
            return
        if same_name and split == data["split"]:
            other = "train" if split == "test" else "test"
            yield context.finding(
                f"{name or 'evaluation'} uses the rows that are trained on",
                "evaluation.split" if context.is_given("evaluation.split") or name else "evaluation",
                f"both take split {split} of {data['path']}",
                fix=_OTHER_FILE if is_file else f"split: {other}",
                patch=[] if is_file else [Patch(context.path("evaluation.split"), other)],
            )
            return


def _training_data(context: Context) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """What is trained on, and where its path is written: the data, or each source of a mixture."""
    sources = context.items("datasets")
    yield from ((("datasets", index, "path"), source) for index, source in enumerate(sources))
    if not sources:
        keys = ("path", "name", "split", "max_rows", "filter")
        yield context.path("dataset.path"), {key: context.value(f"dataset.{key}") for key in keys}


def _chooses(data: Mapping[str, Any]) -> bool:
    return any(data.get(key) is not None for key in ("max_rows", "filter"))


_SLICE = re.compile(r"([\w.-]+)(?:\[(-?\d+%?)?:(-?\d+%?)?\])?")


def overlap(first: str, second: str) -> bool:
    """Whether two splits, such as train and train[:5%], certainly have rows in common.

    Numbers and percentages, or places counted from both ends, cannot be compared without the number of rows.
    """
    parts = [[_SLICE.fullmatch(part.strip()) for part in split.split("+")] for split in (first, second)]
    pairs = [(one, other) for one in parts[0] for other in parts[1] if one and other and one[1] == other[1]]
    return any(_is_before(one[2], other[3]) and _is_before(other[2], one[3]) for one, other in pairs)


def _is_before(start: str | None, end: str | None) -> bool:
    """Whether a slice's start is certainly before another's end; None is the first row, or the end of all."""
    if end is None or (start in (None, "0", "0%") and end not in ("0", "0%")):
        return True
    start = start or "0"
    same_unit = start.endswith("%") == end.endswith("%") and start.startswith("-") == end.startswith("-")
    return same_unit and int(start.rstrip("%")) < int(end.rstrip("%"))


def _place(context: Context, path: Path, value: object) -> str:
    """The absolute path of local data, or the hub id."""
    if not isinstance(value, str):
        raise NotJudged("dataset.path")
    return local_path(value, context.source.directory(path)) or value
