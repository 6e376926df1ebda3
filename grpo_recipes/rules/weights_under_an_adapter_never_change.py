"""The weights under an adapter never change, however often the policy is sent to vLLM.

Before each generation TRL adds the adapter to the weights in place, passes them to vLLM and subtracts it again. In
bfloat16 neither operation is exact, so each transfer changes the weights. No check notices, because the trainer's and
vLLM's weights change together. In 500 transfers of a growing adapter, they changed by a tenth of the adapter's own
change. Only the adapter is saved, and with the original weights it is not the policy that was evaluated. In float32 the
error is a millionth, which still lets a resumed run differ from an uninterrupted one. The shim `adapter_hand_over`
merges into copies, one layer at a time. ZeRO-3 merges into gathered copies and drops them.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.settings import Setting

ID = "SHM023"
APPLIES_TO = {"trl": ">=0.15.0"}
OWNS = ("shims.adapter_hand_over",)
READS = ("GRPOConfig.use_vllm", "distributed.strategy", "shims.adapter_sync")


def decide(context: Context) -> Iterator[Setting]:
    if not context.has_section("lora") or context.value("GRPOConfig.use_vllm") is not True:
        return
    if context.value("distributed.strategy") != "zero3" and context.value("shims.adapter_sync") is None:
        yield rule_setting(OWNS[0], True, "TRL adds the adapter to the weights and subtracts it again")
