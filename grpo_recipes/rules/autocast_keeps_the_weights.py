"""Under DeepSpeed, bf16 uses torch's autocast, so float32 weights stay float32.

DeepSpeed's own `bf16` is not autocast. It casts every weight and adapter to bfloat16 before the first step, whatever
`model.dtype` says, and samples, evaluates and saves in bfloat16; only the optimizer keeps float32. Plain DDP with the
same recipe keeps float32 weights and casts inside the operations. From 0.17.2 DeepSpeed can do the same
(`torch_autocast`), and grpo-run writes that instead of `bf16`, so the weights are the same under every strategy. It
costs two more bytes per parameter, over all shards. To get DeepSpeed's own behaviour, write `dtype: bfloat16` with
`bf16: true`.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.settings import Setting

ID = "PRE003"
APPLIES_TO = {"deepspeed": ">=0.17.2"}
OWNS = ("deepspeed.torch_autocast",)
READS = ("distributed.strategy",)


def decide(context: Context) -> Iterator[Setting]:
    zero = str(context.value("distributed.strategy")).startswith("zero")
    if zero and context.value("GRPOConfig.bf16") is True and context.value("model_init_kwargs.dtype") == "float32":
        why = "DeepSpeed's own bf16 would turn the float32 weights into bfloat16"
        yield rule_setting(OWNS[0], "bfloat16", why)
