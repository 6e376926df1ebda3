"""A run that may begin anew with half the micro-batch trains the same with it.

`training.on_out_of_memory: halve` lets a run, or a trial with --smoke, that has no memory for its first optimizer step
begin once more with half the micro-batch and twice the accumulation. That is the same experiment as long as the
gradient is that of the whole batch, however it is cut. It is not where the recipe claims its cut, where a loss depends
on the micro-batch, and where the target takes a micro-batch of one size alone. An automatic micro-batch that is odd on
some machine is no mistake of the recipe: such a run stops.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.cut import MICRO_BATCH, has_cut

ID = "BAT007"
KEY = "training.on_out_of_memory"


def check(context: Context) -> Iterator[Finding]:
    if context.value(KEY) != "halve":
        return
    size = context.whole(MICRO_BATCH)
    reason = _why_not(context, size)
    if reason is not None:
        yield context.finding(
            ID,
            f"a micro-batch of {size} cannot be halved for the same experiment",
            KEY,
            because=[reason],
            fix="on_out_of_memory: stop",
            patch=[Patch(("training", "on_out_of_memory"), "stop")],
        )


def _why_not(context: Context, size: int) -> str | None:
    """Why half of a micro-batch would be no way out, None where it is one."""
    if has_cut(context):
        return f"training.cut makes it a part of the experiment ({context.origin('training.cut.processes')})"
    for key in ("batch.one_prompt", "batch.in_one_piece"):
        if context.value(key) is True:
            return context.settings[key].why
    if context.value("training.prompts_per_step") is None:
        return "without training.prompts_per_step the accumulation does not follow from the micro-batch"
    if size % 2:
        return f"{size} is odd ({context.origin(MICRO_BATCH)})" if context.given(MICRO_BATCH) else None
    processes, generations = context.whole("world.num_processes"), context.whole("GRPOConfig.num_generations")
    if context.value("batch.whole_groups") is True and size // 2 * processes % generations:
        why = context.settings["batch.whole_groups"].why
        return f"{why}: {size // 2} x {processes} processes cut groups of {generations} apart"
    return None
