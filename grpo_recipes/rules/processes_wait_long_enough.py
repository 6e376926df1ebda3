"""Processes wait for each other as long as the slowest may take, and not for ever.

In a collective each process waits for all others. `ddp_timeout` says how long: one that hangs, or a machine that
cannot be reached, ends the others then, and a value below what a healthy one may take ends a healthy run. Half an
hour, torch's and transformers' own value, is kept for what one process does while the others wait: a download by the
first one, rewards that ask a service, a checkpoint on a slow disk. To it comes the longest generation that is
expected: `max_completion_length` tokens, one after the other, at a quarter of a second each on GPUs, at one second
where weights are gathered for each token (ZeRO-3, FSDP) or a CPU computes. These are pessimistic: minutes more until
an end that comes anyway cost less than a run that is ended by mistake. An evaluation counts with its longest batch,
which is of the same length, since each process answers as many rows as the others.

The worker sets it for all process groups. By themselves transformers leaves it out on the CPU, and DeepSpeed and
FSDP make groups that wait 10 minutes on GPUs and 30 on a CPU, whatever ddp_timeout says.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, decided
from grpo_recipes.settings import Setting

ID = "WLD008"
TIMEOUT = "GRPOConfig.ddp_timeout"
OWNS = (TIMEOUT,)
READS = ("world.num_processes", "world.device", "distributed.strategy")
BASE_S = 1800
GATHERS_EACH_TOKEN = ("zero3", "fsdp2")


def decide(context: Context) -> Iterator[Setting]:
    tokens = context.whole("GRPOConfig.max_completion_length")
    if context.whole("world.num_processes") == 1 or context.value(TIMEOUT) is not None:
        return
    is_slow = context.value("world.device") == "cpu" or context.value("distributed.strategy") in GATHERS_EACH_TOKEN
    token_s = 1.0 if is_slow else 0.25
    why = f"{BASE_S} s, and {token_s:g} s for each of {tokens} tokens"
    yield decided(TIMEOUT, BASE_S + round(token_s * tokens), ID, why, context.settings)
