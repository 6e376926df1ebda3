"""The weights under an adapter stay as they were loaded, however often vLLM is given the policy.

Before each generation TRL adds the adapter to the weights in place, hands them to vLLM and subtracts it again. In
bfloat16 neither is exact, so that each hand-over moves the weights, and no proof sees it, since trainer and vLLM move
together. In 500 hand-overs of an adapter that grew they moved by a tenth of what the adapter changed; what is saved is
the adapter alone, and on the weights that it was saved for it is not the policy that was measured. In float32 the same
is a millionth, and still lets a resumed run differ from one that was never stopped. The shim
`adapter_hand_over` merges into copies, those of one layer at a time. ZeRO-3 drops what was added by itself, with the
gathered copies.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, decided
from grpo_recipes.settings import Setting

ID = "SHM023"
APPLIES_TO = {"trl": ">=0.15.0"}
OWNS = ("shims.adapter_hand_over",)
READS = ("GRPOConfig.use_vllm", "distributed.strategy")


def decide(context: Context) -> Iterator[Setting]:
    if not context.has_section("lora") or context.value("GRPOConfig.use_vllm") is not True:
        return
    if context.value("distributed.strategy") != "zero3":
        yield decided(OWNS[0], True, ID, "TRL adds the adapter to the weights and subtracts it again", context.settings)
