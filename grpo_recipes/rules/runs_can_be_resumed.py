"""An interrupted run can resume from its checkpoints.

With `save_only_model` a checkpoint lacks the states of the optimizer, the schedule and the random numbers. A resumed
run silently starts with a fresh optimizer and warms up again; under DeepSpeed it cannot resume at all.
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
        because = f"{context.value('distributed.strategy')} fails because its states are missing"
    else:
        because = "the run would silently resume with a fresh optimizer and schedule"
    message = "save_only_model writes checkpoints that a run cannot resume from"
    fix = "remove save_only_model, and limit checkpoints with training.save_total_limit"
    yield context.wrong(message, ONLY_MODEL, because, severity="warning", fix=fix)
