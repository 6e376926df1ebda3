"""With ZeRO, scoring uses the precision of the loss, and generation is the same as with DDP.

With float32 weights and `bf16: true`, DDP runs the model under autocast wherever TRL calls it; with an adapter, that is
everything except generation by transformers; without one, generation too. Under DeepSpeed only the passes of the loss
are under autocast: TRL scores completions for vLLM's ratios, several iterations and the KL term in float32. The shim
`zero_autocast` wraps the model as accelerate does for DDP. With ZeRO-3 it also keeps autocast from holding a copy of
every gathered weight until a pass is done. On a CPU with AVX-512's bfloat16, scoring takes half as long as in float32:
1.5 s instead of 2.9 s for 1,024 tokens of a 107M-parameter model (`benchmarks/zero_scoring.py`), which says little
about a GPU. It can be removed when accelerate does this under DeepSpeed.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.settings import Setting

ID = "SHM027"
OWNS = ("shims.zero_autocast",)
READS = ("deepspeed.torch_autocast",)


def decide(context: Context) -> Iterator[Setting]:
    dtype = context.value(READS[0])
    if dtype is not None:
        yield rule_setting(OWNS[0], dtype, "DeepSpeed puts only the passes of the loss under autocast")
