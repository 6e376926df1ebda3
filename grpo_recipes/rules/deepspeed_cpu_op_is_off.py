"""DeepSpeed on the CPU communicates only over gloo.

When it starts, DeepSpeed compiles a shared-memory operation for a minute or more. If a process is killed during that
time, it leaves a lock behind, and every later run silently waits for that lock forever. The shim `deepspeed_shm` marks
the operation as not
available: same numbers, no compilation. It can be removed when torch's extension lock has a time-out.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.settings import Setting

ID = "SHM002"
OWNS = ("shims.deepspeed_shm",)
READS = ("distributed.strategy", "world.device")


def decide(context: Context) -> Iterator[Setting]:
    strategy = str(context.value("distributed.strategy"))
    if strategy.startswith("zero") and context.value("world.device") == "cpu":
        yield rule_setting(OWNS[0], True, "its shared-memory operation can hang on a stale lock")
