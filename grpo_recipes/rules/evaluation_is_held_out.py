"""Evaluation uses rows that are not trained on.

Evaluating the same split of the same path would measure memorization. A file has only the split train, so evaluation
needs a second file.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.training_rows import held_out_sets, makes_rows
from grpo_recipes.user_files.local_files import data_format, local_path

ID = "EVL001"


def check(context: Context) -> Iterator[Finding]:
    for name, of_set in held_out_sets(context):
        yield from _of_set(name, of_set)


def _of_set(name: str, context: Context) -> Iterator[Finding]:
    if makes_rows(context, "evaluation"):
        return
    own_path = context.value("evaluation.path") is not None
    trained_on = _place(context, "dataset")
    same_name = context.value("evaluation.name") in (None, context.value("dataset.name"))
    split = context.value("evaluation.split") or ("train" if own_path else context.value("dataset.split"))
    if own_path and _place(context, "evaluation") != trained_on:
        return
    if same_name and split == context.value("dataset.split"):
        is_file = data_format(trained_on) is not None
        other = "train" if split == "test" else "test"
        yield context.finding(
            f"{name or 'evaluation'} uses the rows that are trained on",
            "evaluation.split" if context.given("evaluation.split") or name else "evaluation",
            f"both take split {split} of {context.value('dataset.path')}",
            fix="path: a second file, with rows that are not trained on" if is_file else f"split: {other}",
            patch=[] if is_file else [Patch(context.path("evaluation.split"), other)],
        )


def _place(context: Context, section: str) -> str:
    """The absolute path of local data, or the hub id."""
    value = context.text(f"{section}.path")
    return local_path(value, context.source.directory(context.path(f"{section}.path"))) or value
