"""Gradient checkpointing lets the gradient reach an adapter.

With reentrant checkpointing no input of a checkpointed block needs a gradient while the base is frozen, and the first
backward pass raises "element 0 of tensors does not require grad". Since TRL 0.16, the trainer or PEFT enables gradients
on the inputs; TRL 0.14 and 0.15 do not, so `use_reentrant` must be false there. (They train no adapter under ZeRO-3,
which would need true; see STK015.)
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context

ID = "LRA002"
APPLIES_TO = {"trl": "<0.16"}
KWARGS = "GRPOConfig.gradient_checkpointing_kwargs"


def check(context: Context) -> Iterator[Finding]:
    if not context.has_section("lora") or context.value("GRPOConfig.gradient_checkpointing") is not True:
        return
    if context.mapping(KWARGS).get("use_reentrant") is True and context.is_given(KWARGS):
        yield context.wrong(
            "reentrant checkpointing of a frozen base gives the adapter no gradient",
            KWARGS,
            f'trl {context.stack.version("trl")} ends in "element 0 of tensors does not require grad"',
            False,
            at=("training", "gradient_checkpointing_kwargs", "use_reentrant"),
            fix="use_reentrant: false, or trl==0.17.0",
            mark=context.mark(KWARGS),
        )
