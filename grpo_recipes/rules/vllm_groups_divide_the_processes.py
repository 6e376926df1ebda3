"""The processes fall into whole groups that share one model of vLLM.

With `vllm_tensor_parallel_size` N in colocate mode, N neighbouring processes hold one model of vLLM together. TRL
raises ValueError when N does not divide the number of processes, after the model was loaded; and vLLM when it does not
divide the attention heads of the model.
"""

from collections.abc import Iterator
from math import gcd

from grpo_recipes.finding import Finding, Patch
from grpo_recipes.rules.context import Context
from grpo_recipes.rules.loaded_model import model_config

ID = "GEN004"
SIZE = "GRPOConfig.vllm_tensor_parallel_size"


def check(context: Context) -> Iterator[Finding]:
    if context.value("GRPOConfig.use_vllm") is not True or context.value("GRPOConfig.vllm_mode") != "colocate":
        return
    size, processes = context.whole(SIZE), context.whole("world.num_processes")
    if size == 1:
        return
    heads = (model_config(context) or {}).get("num_attention_heads")
    whole = gcd(processes, heads) if isinstance(heads, int) and heads > 0 else processes
    if processes % size:
        said, why = f"{processes} processes do not fall into groups of {size}", "TRL raises ValueError for it"
    elif whole % size:
        said, why = f"{size} processes cannot share {heads} attention heads", "vLLM raises ValueError for it"
    else:
        return
    better = next(number for number in range(min(size - 1, whole), 0, -1) if whole % number == 0)
    yield context.finding(
        ID,
        said,
        SIZE,
        because=[
            f"{why}, after the model was loaded",
            f"{processes} processes: {context.origin('launch.num_processes')}",
        ],
        fix=f"vllm_tensor_parallel_size: {better}",
        patch=[Patch(("generation", "vllm_tensor_parallel_size"), better)],
    )
