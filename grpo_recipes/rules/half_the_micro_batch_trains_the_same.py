"""A run that may restart with half the micro-batch trains the same with it.

With `training.on_out_of_memory: halve`, a run (or a trial with --smoke) that runs out of memory in its first optimizer
step starts once more with half the micro-batch and twice the accumulation. That is the same experiment if the gradient
does not depend on the cut. It is not if the recipe claims its cut, if a loss depends on the micro-batch, or if the
target accepts only one micro-batch. An automatic micro-batch that is odd on some machine is not a mistake of the
recipe; that run stops.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.batch_cut import MICRO_BATCH, has_cut
from grpo_recipes.rules._shared.context import Context

ID = "BAT007"
KEY = "training.on_out_of_memory"


def check(context: Context) -> Iterator[Finding]:
    if context.value(KEY) != "halve":
        return
    size = context.whole(MICRO_BATCH)
    reason = _why_not(context, size)
    if reason is not None:
        yield context.wrong(f"a micro-batch of {size} cannot be halved for the same experiment", KEY, reason, "stop")


def _why_not(context: Context, size: int) -> str | None:
    """Why half of a micro-batch would be a different experiment, None if it would not."""
    if has_cut(context):
        return f"training.cut makes it part of the experiment ({context.origin('training.cut.processes')})"
    for key in ("batch.one_prompt", "batch.in_one_piece"):
        if context.value(key) is True:
            return context.settings[key].why
    if context.value("training.prompts_per_step") is None:
        return "without training.prompts_per_step the accumulation does not follow from the micro-batch"
    if size % 2:
        return f"{size} is odd ({context.origin(MICRO_BATCH)})" if context.is_given(MICRO_BATCH) else None
    processes, generations = context.whole("world.num_processes"), context.whole("GRPOConfig.num_generations")
    if context.value("batch.whole_groups") is True and size // 2 * processes % generations:
        why = context.settings["batch.whole_groups"].why
        return f"{why}: {size // 2} x {processes} processes cut groups of {generations} apart"
    return None
