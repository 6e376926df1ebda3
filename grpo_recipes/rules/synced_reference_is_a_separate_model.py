"""sync_ref_model has a separate reference model to update.

With sync_ref_model TRL copies the policy's weights to the reference model every ref_model_sync_steps. Without a penalty
(beta 0, the default) no reference model exists: TRL raises ValueError after loading the policy. With an adapter the
reference is the model without its adapter: TRL raises NotImplementedError. Before 0.28 TRL silently synchronized
nothing in both cases.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.facts.released.windows import is_within
from grpo_recipes.rules._shared.context import Context

ID = "GRP002"
SYNC, STEPS = "GRPOConfig.sync_ref_model", "GRPOConfig.ref_model_sync_steps"


def check(context: Context) -> Iterator[Finding]:
    beta = context.value("GRPOConfig.beta")
    if context.value(SYNC) is not True or not isinstance(beta, int | float):
        return
    if beta <= 0:
        yield from _no_reference(context)
        return
    if context.has_section("lora"):
        because = "with an adapter, the reference is the model without the adapter, and never changes"
        yield context.wrong("sync_ref_model needs full fine-tuning", SYNC, because)
        return
    steps = context.value(STEPS)
    if isinstance(steps, int) and steps < 1:
        because = "the first step would divide by zero"
        yield context.wrong(f"ref_model_sync_steps is {steps}, but must be at least 1", STEPS, because, 512)


def _no_reference(context: Context) -> Iterator[Finding]:
    """The finding for a penalty of 0, if the release does not ignore it."""
    release = context.stack.version("trl")
    if release is not None and is_within(release, "<0.28"):
        return
    ways = "beta: 0.04, " if not context.has_section("lora") else ""
    message = "sync_ref_model needs a reference model, but beta is 0"
    because = [
        f"beta 0 ({context.origin('GRPOConfig.beta')}) needs no reference",
        "TRL raises ValueError after loading the model",
    ]
    yield context.wrong(message, SYNC, because, fix=f"{ways}{'or ' if ways else ''}remove sync_ref_model")
