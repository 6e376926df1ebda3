"""A reference model that is to follow the policy is a model of its own.

With sync_ref_model TRL copies the policy's weights to the reference model every ref_model_sync_steps. Where an adapter
is trained there is no such model, since the reference is the model without its adapter: TRL raises NotImplementedError
after the model was loaded, and before 0.28 it never synchronized anything without a word.
"""

from collections.abc import Iterator

from grpo_recipes.finding import Finding, Patch
from grpo_recipes.rules.context import Context

ID = "GRP002"
SYNC, STEPS = "GRPOConfig.sync_ref_model", "GRPOConfig.ref_model_sync_steps"


def check(context: Context) -> Iterator[Finding]:
    beta = context.value("GRPOConfig.beta")
    if context.value(SYNC) is not True or not isinstance(beta, int | float) or beta <= 0:
        return
    if context.has_section("lora"):
        yield context.finding(
            ID,
            "sync_ref_model needs full fine-tuning",
            SYNC,
            because=["the reference of an adapter is the model without it, and never changes"],
            fix="remove sync_ref_model",
            patch=[Patch(("trl", "sync_ref_model"), remove=True)],
        )
        return
    steps = context.value(STEPS)
    if isinstance(steps, int) and steps < 1:
        yield context.finding(
            ID,
            f"ref_model_sync_steps is {steps}, it must be at least 1",
            STEPS,
            because=["the first step would divide by it"],
            fix="ref_model_sync_steps: 512",
            patch=[Patch(("trl", "ref_model_sync_steps"), 512)],
        )
