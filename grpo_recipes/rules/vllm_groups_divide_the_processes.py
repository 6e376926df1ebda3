"""The processes split into whole groups that share one vLLM model.

With `vllm_tensor_parallel_size` N in colocate mode, N neighbouring processes share one vLLM model. After loading the
model, TRL raises ValueError if N does not divide the number of processes, and so does vLLM if N does not divide the
model's attention heads. Ranks are numbered machine by machine, so on several machines N has to divide the processes of
one machine: a group across two machines would send every layer of every token over the network.
"""

from collections.abc import Iterator
from math import gcd

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import model_config, not_at_hand

ID = "GEN004"
RAISED = "{} raises ValueError after loading the model"
SIZE = "GRPOConfig.vllm_tensor_parallel_size"


def check(context: Context) -> Iterator[Finding]:
    if context.value("GRPOConfig.use_vllm") is not True or context.value("GRPOConfig.vllm_mode") != "colocate":
        return
    size, processes = context.whole(SIZE), context.whole("world.num_processes")
    if size == 1:
        return
    heads = (model_config(context) or {}).get("num_attention_heads")
    nodes = context.whole("world.num_nodes")
    each = processes if processes % nodes else processes // nodes
    whole = gcd(each, heads) if isinstance(heads, int) and heads > 0 else each
    if processes % size:
        message, why = f"{processes} processes do not split into groups of {size}", RAISED.format("TRL")
    elif each % size:
        message = f"groups of {size} processes do not fit into machines with {each}"
        why = "TRL groups neighbouring ranks, and vLLM splits each layer of the model over a group"
    elif whole % size:
        message, why = f"{size} processes cannot share {heads} attention heads", RAISED.format("vLLM")
    else:
        if heads is None:
            yield not_at_hand(context, f"whether {size} divides the attention heads of the model", SIZE)
        return
    better = next(number for number in range(min(size - 1, whole), 0, -1) if whole % number == 0)
    because = [
        why,
        f"{processes} processes: {context.origin('launch.num_processes')}",
    ]
    yield context.wrong(message, SIZE, because, better)
