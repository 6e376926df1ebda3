"""Rows come from one source: a path, or tasks that generate them.

`dataset` has at most one of `path` and `reasoning_gym`, and if the training rows are generated, `evaluation` has
exactly one; with neither it would evaluate the training rows. name, split and revision select rows of a path, and have
no effect on generated rows.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.training_rows import held_out_sets, makes_rows

ID = "DAT009"
OF_A_PATH = ("name", "split", "revision")


def check(context: Context) -> Iterator[Finding]:
    yield from _of_section(context, "dataset", has_rows=True)
    for _, of_set in held_out_sets(context):
        yield from _of_section(of_set, "evaluation", has_rows=not makes_rows(of_set))


def _of_section(context: Context, section: str, *, has_rows: bool) -> Iterator[Finding]:
    """has_rows: whether the section has rows without naming a source."""
    path, are_made = context.value(f"{section}.path"), makes_rows(context, section)
    section_path = context.path(f"{section}.path")[:-1]
    named = ".".join(map(str, section_path))
    if path is not None and are_made:
        message = f"{named} has both path and reasoning_gym"
        because = "rows come from a path, or from tasks that generate them"
        yield context.finding(message, f"{section}.path", because, fix="keep one of them")
    elif path is None and not are_made and not has_rows:
        message = f"{named} sets neither path nor reasoning_gym"
        because = "without them it would evaluate the training rows"
        at = (*section_path, "reasoning_gym")
        mark = context.source.mark(section_path)
        yield context.wrong(message, section, because, {"size": 100, "seed": 1}, at=at, mark=mark)
    elif are_made and section == "evaluation" and not makes_rows(context):
        message = f"{named}.reasoning_gym has no tasks"
        because = "it uses the tasks of dataset.reasoning_gym, which is not set"
        mark = context.source.mark((*section_path, "reasoning_gym"))
        yield context.finding(
            message, "evaluation.reasoning_gym", because, fix="path: a file with held-out rows", mark=mark
        )
    elif are_made:
        for key in OF_A_PATH:
            if (section, key) != ("evaluation", "revision") and context.is_given(f"{section}.{key}"):
                message = f"{named}.{key} selects rows of a path, but there is no path"
                yield context.wrong(message, f"{section}.{key}", "tasks of reasoning_gym generate the rows")
