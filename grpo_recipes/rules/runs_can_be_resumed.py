"""An interrupted run can resume from its checkpoints.

With `save_only_model` a checkpoint lacks the states of the optimizer, the schedule and the random numbers. A run that
is resumed from it silently starts with a fresh optimizer and warms up again, and under DeepSpeed it cannot be resumed
at all.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context

ID = "TRN005"
ONLY_MODEL = "GRPOConfig.save_only_model"


def check(context: Context) -> Iterator[Finding]:
    if context.value(ONLY_MODEL) is not True or not context.value("GRPOConfig.save_steps"):
        return
    sharded = context.text("distributed.strategy").startswith("zero")
    if sharded:
        because = f"{context.value('distributed.strategy')} does not find its states in it and fails"
    else:
        because = "it would silently resume with a fresh optimizer and schedule"
    said = "a run cannot resume from a checkpoint of only the model"
    fix = "remove save_only_model, and limit their number with training.save_total_limit"
    yield context.wrong(said, ONLY_MODEL, because, severity="warning", fix=fix)
