"""Rows have a source.

A recipe names its data with `dataset.path`, or the tasks that generate it with `dataset.reasoning_gym`. Only a recipe
with an `environment` can leave out both: the rows are then episodes of the environment (DAT007), and `name`, `split`
and `revision`, which select rows of a data set, would have no effect. Without all of them TRL raises ValueError when it
builds the trainer.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.training_rows import makes_rows, sections_of_rows

ID = "DAT008"
PATH = "dataset.path"
PICK = ("dataset.name", "dataset.split", "dataset.revision", "evaluation.name", "evaluation.split")


def check(context: Context) -> Iterator[Finding]:
    written = context.source.values.get("dataset")
    if context.value(PATH) is not None or makes_rows(context) or ("environment",) in context.refused:
        return
    if isinstance(written, dict) and written.get("reasoning_gym") is not None:
        return  # SCH002 names what is wrong with it
    if not context.has_section("environment"):
        has_section = context.has_section("dataset")
        message = "`dataset` has neither path nor reasoning_gym" if has_section else "the recipe lacks dataset"
        why = "only an environment can provide rows itself"
        fix = "path: openai/gsm8k" if has_section else "dataset: {path: openai/gsm8k, name: main}"
        yield context.finding(message, PATH if has_section else "dataset", why, fix=fix)
        return
    for section, of_rows in sections_of_rows(context):
        if section == "evaluation" and of_rows.value("evaluation.path") is not None:
            continue
        for key in PICK:
            if key.startswith(section) and of_rows.is_given(key) and of_rows.value(key) is not None:
                message = f"{of_rows.recipe_key(key)} selects rows of a data set, but there is no {PATH}"
                because = "the environment owns the data, and the rows are its episodes"
                yield of_rows.wrong(message, key, because)
