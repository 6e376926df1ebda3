"""The run's vLLM server has its own GPUs, and leaves at least one for training.

A server that the run starts (`vllm_mode: server` without an address under `trl:`) takes the last `vllm_server.gpus` of
the machine's GPUs, and each of the others gets one training process. Weights go from trainer to server over NCCL, which
refuses a GPU that belongs to both. With `launch.num_nodes` above 1 the server has the last machine to itself, and
cannot use more GPUs than that machine has. The server spreads one copy of the model over its GPUs, and vLLM raises
ValueError if their number does not divide the model's attention heads.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import model_config
from grpo_recipes.rules._shared.machines import has_server_node
from grpo_recipes.rules._shared.vllms_gpu import GPUS, starts_server

ID = "SRV001"


def check(context: Context) -> Iterator[Finding]:
    gpus = context.whole("world.server_gpus")
    if not starts_server(context) or not gpus:
        return
    yield from _too_many(context, gpus) if has_server_node(context) else _none_left(context, gpus)
    config = model_config(context) or {}
    heads, shared = config.get("num_attention_heads"), config.get("num_key_value_heads")
    if isinstance(heads, int) and heads > 0 and heads % gpus:
        shared = shared if isinstance(shared, int) and shared > 0 else heads
        better = next(number for number in range(gpus, 0, -1) if heads % number == 0 and _can_share(shared, number))
        message = f"the vLLM server's {gpus} GPUs cannot share {heads} attention heads"
        because = "vLLM raises ValueError when it starts"
        yield context.wrong(message, GPUS, because, better, fix=f"vllm_server.gpus: {better}")


def _can_share(heads: int, gpus: int) -> bool:
    """Whether vLLM can spread this many heads of keys and values: several on each GPU, or one on several."""
    return heads % gpus == 0 or gpus % heads == 0


def _too_many(context: Context, gpus: int) -> Iterator[Finding]:
    """Findings for a server that has a whole machine."""
    all_gpus = context.whole("world.all_gpus")
    if gpus > all_gpus:
        message = f"the vLLM server takes {gpus} GPUs, but its machine has {all_gpus}"
        because = ["the server runs on a single machine", context.settings["world.gpus"].why]
        yield context.wrong(message, GPUS, because, all_gpus, fix=f"vllm_server.gpus: {all_gpus}")


def _none_left(context: Context, gpus: int) -> Iterator[Finding]:
    all_gpus = context.whole("world.all_gpus")
    if gpus < all_gpus:
        return
    takes = f"the vLLM server takes {gpus} of {all_gpus} GPU{'' if all_gpus == 1 else 's'} and leaves none to train on"
    because = [f"{context.origin(GPUS)}: vllm_server.gpus {gpus}", context.settings["world.gpus"].why]
    key = GPUS if context.is_given(GPUS) else "GRPOConfig.vllm_mode"
    if all_gpus > 1:
        yield context.wrong(takes, key, because, 1, at=("vllm_server", "gpus"), fix="vllm_server.gpus: 1")
    else:
        yield context.wrong(takes, key, because, "colocate", at=("generation", "vllm_mode"))
