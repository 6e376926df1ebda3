"""Each row names one of several environments, whose names differ.

TRL supports several environments since 1.8, selected by the column `environment` of the rows. It reads that column for
each batch: a row without it, or with an unknown name, raises ValueError in the middle of training. It shows the model
only the methods of the row's environment. A `get_reward` applies to the rows of its environment, under the
environment's name in grpo-run and under the class's name in TRL.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.findings.wording import nearest_words
from grpo_recipes.facts.released.windows import is_within
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.training_rows import are_episodes, columns_at, held_out_sets, own_columns
from grpo_recipes.user_files.reward_imports import reward_names

ID = "TOL015"
KEY, COLUMN = "environments", "environment"
FIRST = "1.8.0"


def check(context: Context) -> Iterator[Finding]:
    names = [str(item["name"]) for item in context.items(KEY)]
    if not names:
        return
    if context.source.values.get(COLUMN) not in (None, *_environments_as_written(context)):
        because = f"{KEY} replaces {COLUMN}"
        yield context.finding(
            f"the recipe has both {COLUMN} and {KEY}", COLUMN, because, fix=f"move it to an item of {KEY}"
        )
        return
    version = context.stack.version("trl")
    if version is not None and is_within(version, f"<{FIRST}"):
        message = f"trl {version} supports only one environment"
        because = "its GRPOTrainer accepts no dict as environment_factory"
        yield context.finding(message, KEY, because, fix=f"trl=={FIRST} or newer")
    taken = dict.fromkeys(reward_names(context.items("rewards")), "reward")
    for index, name in enumerate(names):
        if name in taken:
            message = f"the name {name} is taken by a {taken[name]}"
            because = "rows and metrics of an environment use its name"
            mark = context.source.mark((KEY, index, "name"))
            yield context.finding(message, KEY, because, fix="name: a different one", mark=mark)
        taken.setdefault(name, "different environment")
    if are_episodes(context):
        message = "several environments need dataset.path"
        because = f"the column {COLUMN} of a row names its environment"
        yield context.finding(message, KEY, because, fix="dataset.path, or one environment")
        return
    yield from _of_rows(context, own_columns(context), "the rows", names)
    for name, of_set in held_out_sets(context):
        if of_set.value("evaluation.path") is not None:
            rows = f"held-out set {name}" if name else "the held-out rows"
            yield from _of_rows(of_set, columns_at(of_set, "evaluation.path"), rows, names)


def _environments_as_written(context: Context) -> list[object]:
    """The environments as written; a rule sees one of them as `environment`."""
    several = context.source.values.get(KEY)
    return several if isinstance(several, list) else []


def _of_rows(context: Context, own: frozenset[str] | None, rows: str, names: list[str]) -> Iterator[Finding]:
    template = context.mapping("dataset.columns").get(COLUMN)
    listed = ", ".join(names)
    if template is None and own is not None and COLUMN not in own:
        because = f"it names the environment of a row, one of {listed}"
        fix = f"columns: {{{COLUMN}: {names[0]}}}, or a template for each row"
        yield context.finding(f"{rows} lack a column {COLUMN}", KEY, because, fix=fix)
    elif template is not None and "{" not in str(template) and template not in names:
        near = nearest_words(str(template), names, cutoff=0.5) or names[:1]
        message, because = f"no environment is called {template}", f"the environments are {listed}"
        yield context.finding(message, "dataset.columns", because, fix=f"{COLUMN}: {near[0]}")
