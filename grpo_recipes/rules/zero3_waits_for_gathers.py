"""ZeRO-3 on the CPU uses a weight only after it has arrived.

To gather several parameters at once deepspeed starts one operation for each and waits only for the last. GPUs finish
them in that order. gloo, which the CPU uses, runs two at a time, so a busy machine occasionally reads weights that have
not arrived: the run silently trains a different model, or its first generation ends in NaN. The shim `zero3_gathers`
waits for each of them. It can be removed when no deepspeed before 0.19.8 is supported; that release waits for all.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.settings import Setting

ID = "SHM019"
APPLIES_TO = {"deepspeed": "<0.19.8"}
OWNS = ("shims.zero3_gathers",)
READS = ("distributed.strategy", "world.device")


def decide(context: Context) -> Iterator[Setting]:
    if context.value("distributed.strategy") == "zero3" and context.value("world.device") == "cpu":
        yield rule_setting(OWNS[0], True, "deepspeed waits only for the last of several gathers")
