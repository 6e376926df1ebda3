"""Each process loads a quantized model onto its own device.

bitsandbytes weights cannot be moved after loading. With one process and with DDP, each process loads the whole model
onto its own device, device map {"": rank}; `device_map: auto` would spread layers over all visible GPUs, which
accelerate refuses in a distributed run. ZeRO-3 and FSDP use no device map, since they place the shards later.

Advice that does not help: `device_map="auto"`, which is right only for one process that sees one GPU. With several
visible GPUs it splits the layers between them, and in a distributed run every process does so.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.loaded_model import is_quantized
from grpo_recipes.rules._shared.settings import Setting

ID = "QNT003"
OWNS = ("model_init_kwargs.device_map",)
READS = ("distributed.strategy",)


def decide(context: Context) -> Iterator[Setting]:
    strategy = context.value("distributed.strategy")
    if is_quantized(context) and strategy not in ("zero3", "fsdp2"):
        why = "each process holds the whole quantized model on its own device"
        yield rule_setting(OWNS[0], "local_rank", why)
