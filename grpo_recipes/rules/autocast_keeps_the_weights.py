"""Under DeepSpeed bf16 autocast is torch's own, so that float32 weights stay float32.

DeepSpeed's own `bf16` is no autocast: it casts every weight and adapter to bfloat16 before the first step, samples
and evaluates with that, and saves bfloat16, whatever `model.dtype` says; the optimizer alone keeps float32. Plain DDP
with the same recipe keeps float32 weights and casts inside the operations. From 0.17.2 DeepSpeed can do the same
(`torch_autocast`), which is then rendered in the place of `bf16`: the same weights under every strategy. It costs two
more bytes for each parameter over all shards; `dtype: bfloat16` with `bf16: true` is DeepSpeed's own way.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, decided
from grpo_recipes.settings import Setting

ID = "PRE003"
APPLIES_TO = {"deepspeed": ">=0.17.2"}
OWNS = ("deepspeed.torch_autocast",)
READS = ("distributed.strategy",)


def decide(context: Context) -> Iterator[Setting]:
    zero = str(context.value("distributed.strategy")).startswith("zero")
    if zero and context.value("GRPOConfig.bf16") is True and context.value("model_init_kwargs.dtype") == "float32":
        why = "DeepSpeed's own bf16 would turn the float32 weights into bfloat16"
        yield decided(OWNS[0], "bfloat16", ID, why, context.settings)
