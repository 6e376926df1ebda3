"""Processes wait for each other long enough for the slowest, but not forever.

In a collective each process waits for all others. `ddp_timeout` limits that wait: it ends the others if one hangs or a
machine is unreachable, but a value below the duration of a healthy step ends a healthy run. Half an hour, the default
of torch and transformers, covers what one process does while the others wait: a download by the first one, rewards that
call a service, a checkpoint on a slow disk. The longest expected generation is added: `max_completion_length` tokens,
one after another, at a quarter of a second each on GPUs, and at one second if weights are gathered for each token
(ZeRO-3, FSDP) or on a CPU. These times are pessimistic, because ending a hung run a few minutes late costs less than
ending a healthy one. For an evaluation, the longest batch counts; every process has the same number of rows, so none
waits longer.

The worker sets it for all process groups. By default, transformers ignores it on the CPU, and DeepSpeed and FSDP create
groups that wait 10 minutes on GPUs and 30 on a CPU, regardless of ddp_timeout.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.settings import Setting

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
    yield rule_setting(TIMEOUT, BASE_S + round(token_s * tokens), why)
