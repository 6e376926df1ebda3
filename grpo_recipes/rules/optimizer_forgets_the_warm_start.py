"""GRPO begins with a fresh optimizer after a warm start.

grpo-run clears the optimizer's state between the two, and sets the learning rate of each step of the warm start itself.
It does so with optimizers that keep all of it in torch's `state` and take the rate from their groups. Optimizers that
step while the gradient is computed, that average weights, or that page their state out of the GPU keep more.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context

ID = "TRN016"
OPTIM = "GRPOConfig.optim"
FORGETFUL = {
    *("adamw_torch", "adamw_torch_fused", "adamw_hf", "sgd", "adagrad", "rmsprop"),
    *("adamw_8bit", "adamw_bnb_8bit", "lion", "lion_8bit", "lion_32bit"),
}


def check(context: Context) -> Iterator[Finding]:
    if context.has_section("warm_start") and context.value(OPTIM) not in FORGETFUL:
        message = f"{context.value(OPTIM)} cannot be made fresh after a warm start"
        because = "grpo-run was not tested with it; it may keep averages or rates of the warm start"
        yield context.wrong(message, OPTIM, because, "adamw_torch_fused")
