"""Attention has a finite gradient, whatever the length of a row.

Since torch 2.11, cuDNN computes masked attention on Hopper and Blackwell GPUs. If a row is 64 tokens longer than a
multiple of 128, it gives NaN for the gradient of the padding on the left of a prompt, and so for all weights: about one
micro-batch in 128 ruins a run (pytorch issue 196678). The shim `attention_gradient` computes such a gradient when
training starts and, if it is not finite, uses torch's other attention kernels. On other GPUs it does nothing. run.json
records what it did. It can be removed when torch ships a cuDNN that computes this gradient.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.settings import Setting

ID = "SHM026"
APPLIES_TO = {"torch": ">=2.11"}
OWNS = ("shims.attention_gradient",)
READS = ("world.device",)
KERNEL = "model_init_kwargs.attn_implementation"


def decide(context: Context) -> Iterator[Setting]:
    if context.value("world.device") == "cuda" and context.value(KERNEL) in (None, "auto", "sdpa"):
        yield rule_setting(OWNS[0], True, "cuDNN's attention can have a gradient that is not finite")
