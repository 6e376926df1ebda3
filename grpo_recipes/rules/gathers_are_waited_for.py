"""ZeRO-3 on the CPU uses a weight only when it has arrived.

To gather several parameters at once deepspeed starts one operation for each and waits for the last alone. On GPUs they
are done in that order; gloo, which the CPU talks over, does two at a time, so that a busy machine now and then reads
weights that are not there yet: another model is trained, or the first generation ends in NaN, and nothing says so. The
shim `zero3_gathers` waits for each of them. It goes when no deepspeed before 0.19.8 is of use, which waits for all.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, decided
from grpo_recipes.settings import Setting

ID = "SHM019"
APPLIES_TO = {"deepspeed": "<0.19.8"}
OWNS = ("shims.zero3_gathers",)
READS = ("distributed.strategy", "world.device")


def decide(context: Context) -> Iterator[Setting]:
    if context.value("distributed.strategy") == "zero3" and context.value("world.device") == "cpu":
        yield decided(OWNS[0], True, ID, "deepspeed waits for the last of several gathers alone", context.settings)
