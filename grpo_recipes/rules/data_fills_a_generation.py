"""The data has enough prompts for at least one generation.

TRL draws whole generation batches and drops an incomplete last one. If the data has fewer rows than one batch has
prompts, no batch is left. With max_steps the run ends immediately, after 0 steps and without an error, and saves the
model that it loaded; with num_train_epochs transformers raises ValueError for a data loader without a length.
"""

from collections.abc import Iterator
from math import ceil

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.batch_cut import ACCUMULATION, ITERATIONS, micro_batches_fed
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.training_rows import data_file, makes_rows, own_columns
from grpo_recipes.user_files.local_rows import MOST_COUNTED, rows_up_to

ID = "DAT002"
APPLIES_TO = {"trl": ">=0.16"}
PROMPTS, ROWS, SIZE = "training.prompts_per_step", "dataset.max_rows", "dataset.reasoning_gym.size"
STEPS, EPOCHS = "GRPOConfig.max_steps", "GRPOConfig.num_train_epochs"


def check(context: Context) -> Iterator[Finding]:
    if context.items("datasets"):
        return  # a source that ends starts again
    needed = prompts_of_a_generation(context)
    path, most = data_file(context), context.value(ROWS)
    has = rows_up_to(path, needed) if path is not None and own_columns(context) is not None else None
    if makes_rows(context):
        has = context.whole(SIZE)
    few_taken = isinstance(most, int) and most < needed
    if not few_taken and (has is None or has >= needed):
        return
    rows = min(n for n in (most, has) if isinstance(n, int))
    key = ROWS if few_taken and (has is None or has >= needed) else SIZE if makes_rows(context) else "dataset.path"
    fix, patch = _way_out(context, key, needed, rows)
    yield context.finding(
        f"{rows} rows do not fill a generation of {needed} prompts",
        key,
        [
            f"a generation has {needed} prompts: {_why(context)}",
            "TRL drops an incomplete generation, so the run would end after 0 steps",
        ],
        fix=fix,
        patch=patch,
    )


def prompts_of_a_generation(context: Context) -> int:
    """Prompts per generation, over all processes."""
    if context.value(PROMPTS) is not None:
        return context.whole(PROMPTS) * context.whole("grpo.optimizer_steps_per_generation")
    batch = context.value("GRPOConfig.generation_batch_size")
    if not isinstance(batch, int):
        steps = context.value("GRPOConfig.steps_per_generation")
        steps = steps if isinstance(steps, int) else context.whole("GRPOConfig.gradient_accumulation_steps")
        batch = context.whole("GRPOConfig.per_device_train_batch_size") * context.whole("world.num_processes") * steps
    return batch // context.whole("GRPOConfig.num_generations")


def steps_at_most(context: Context) -> tuple[int, str] | None:
    """The optimizer steps of the run, or more, and where they come from; None if nothing bounds them.

    Without max_steps they follow from the passes over the rows, of which a filter may leave fewer.
    """
    steps, epochs, most = context.value(STEPS), context.value(EPOCHS), context.value(ROWS)
    if isinstance(steps, int):
        return steps, context.origin(STEPS)
    if context.items("datasets") or not isinstance(epochs, int | float):
        return None
    path = data_file(context)
    has = context.value(SIZE) if makes_rows(context) else rows_up_to(path, MOST_COUNTED) if path is not None else None
    rows = min((n for n in (most, has) if isinstance(n, int)), default=None)
    if rows is None or (rows == has == MOST_COUNTED and not makes_rows(context)):
        return None
    fed = rows // max(1, prompts_of_a_generation(context)) * micro_batches_fed(context) * context.whole(ITERATIONS)
    an_epoch = -(-fed // max(1, context.whole(ACCUMULATION)))
    return ceil(epochs * an_epoch), f"{epochs:g} epochs of {rows} rows"


def _why(context: Context) -> str:
    if context.value(PROMPTS) is None:
        return "from the batch fields under trl"
    steps = context.whole("grpo.optimizer_steps_per_generation")
    return f"prompts_per_step {context.value(PROMPTS)} x {steps} optimizer step{'' if steps == 1 else 's'}"


def _way_out(context: Context, key: str, needed: int, rows: int) -> tuple[str, list[Patch]]:
    if key == ROWS:
        return f"max_rows: {needed}, or more", [Patch(("dataset", "max_rows"), needed)]
    fewer = rows // context.whole("grpo.optimizer_steps_per_generation")
    if context.value(PROMPTS) is None or fewer < 1 or context.value("world.num_processes") != 1:
        return f"{needed} rows or more", []
    return f"prompts_per_step: {fewer}", [Patch(("training", "prompts_per_step"), fewer)]
