"""Tools need a strategy in which each process generates on its own.

The methods of an environment are tools too. The number of turns depends on the completions of a process. TRL's loop of
turns does not synchronize processes, so ranks leave it after different numbers of turns. With ZeRO-3 and FSDP2 each
turn gathers weights from all ranks. With a vLLM server, or a vLLM over several GPUs, all ranks send one request
together. A rank with a further turn then waits for ranks that already compute rewards. Tested with two processes on the
CPU and a server of vLLM 0.31: in the first step the rank with a further turn receives the prompts that the other rank
gathers, and the run ends with UnpicklingError in gather_object. Source: trl's grpo_trainer.py (_tool_call_loop),
generation/vllm_generation.py (generate); transformers' generation/utils.py (synced_gpus).
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.said_tools import turns_of

ID = "TOL007"
STRATEGY, MODE = "distributed.strategy", "GRPOConfig.vllm_mode"
TOGETHER = "GRPOConfig.vllm_tensor_parallel_size"


def check(context: Context) -> Iterator[Finding]:
    if turns_of(context) is None or context.whole("world.num_processes") < 2:
        return
    strategy = context.text(STRATEGY)
    if strategy in ("zero3", "fsdp2"):
        because = f"each turn gathers the weights of all processes with {strategy} ({context.origin(STRATEGY)})"
        fix = "strategy: zero2, or ddp, which keep all weights in each process"
        yield _finding(context, STRATEGY, because, fix)
    if context.value("GRPOConfig.use_vllm") is not True:
        return
    if context.value(MODE) == "server":
        because = f"all processes send one request to the server ({context.origin(MODE)})"
        yield _finding(context, MODE, because, "vllm_mode: colocate, or one training process")
    elif context.whole(TOGETHER) > 1:
        because = f"the processes of a vLLM over several GPUs generate together ({context.origin(TOGETHER)})"
        yield _finding(context, TOGETHER, because, "vllm_tensor_parallel_size: 1")


def _finding(context: Context, key: str, because: str, fix: str) -> Finding:
    what = "processes with different numbers of tool turns would wait for each other"
    return context.finding(what, key, because, fix=fix)
