"""Redrawn groups need completions that can be passed to TRL again.

With resample_groups, the worker leaves TRL's generate-and-score method once it has rewards, draws further prompts, and
calls the method again with the completions that it keeps. Completions made with tools, an environment or a rollout
cannot be passed in again, because their turns have already been played.

Further prompts come from the end of the shuffled data. The rule refuses data that keeps its own order, because in a
curriculum these would be the hardest prompts. Data with only one generation has no further prompts. In a mixture, they
are drawn from the same sources with the same weights.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.training_rows import data_file, makes_rows
from grpo_recipes.rules.data_fills_a_generation import ROWS, SIZE, prompts_of_a_generation
from grpo_recipes.user_files.local_rows import rows_up_to

ID = "GEN016"
RESAMPLE, SHUFFLES = "grpo.resample_groups", "GRPOConfig.shuffle_dataset"
PLAYED = ("tools", "environment", "rollout")


def check(context: Context) -> Iterator[Finding]:
    if context.value(RESAMPLE) == 0:
        return
    played = next((section for section in PLAYED if context.has_section(section)), None)
    if played is not None:
        because = "the turns of a completion cannot be played again for the groups that are kept"
        yield context.wrong(f"resample_groups cannot be combined with `{played}`", RESAMPLE, because, 0)
    elif context.items("datasets"):
        if context.value("dataset.sort_by") is not None or context.is_given(SHUFFLES):
            message = "resample_groups needs shuffled sources"
            because = "further prompts come next in each source; in its own order they differ from the others"
            yield context.wrong(message, RESAMPLE, because, 0)
    elif context.value(SHUFFLES) is False:
        message = "resample_groups needs shuffled data"
        because = "further prompts come from the end of the data; in its own order they differ from the others"
        yield context.wrong(message, SHUFFLES, because, True, fix="shuffle_dataset: true, or resample_groups: 0")
    elif (
        not context.items("datasets")
        and (rows := _rows(context)) is not None
        and rows <= (prompts := prompts_of_a_generation(context))
    ):
        message = "resample_groups has no further prompts to draw"
        yield context.wrong(message, RESAMPLE, f"one generation of {prompts} prompts uses all {rows} rows", 0)


def _rows(context: Context) -> int | None:
    """Rows of the data, counted up to one more than a generation needs; None if unknown."""
    path, enough = data_file(context), prompts_of_a_generation(context) + 1
    in_file = rows_up_to(path, enough) if path is not None else None
    known = (context.value(ROWS), in_file, context.value(SIZE) if makes_rows(context) else None)
    return min((count for count in known if isinstance(count, int)), default=None)
