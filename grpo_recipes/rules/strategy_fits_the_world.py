"""The strategy fits the number of processes: `single` is one process, everything else is for several.

With `strategy: auto` one process is `single` and several are `ddp`. `single` with several processes would start
several independent runs that write into the same folder. FSDP2 cannot run on the CPU: accelerate silently trains with
plain DDP there.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.context import Context, decided
from grpo_recipes.settings import Setting

ID = "WLD003"
OWNS = ("distributed.strategy",)
READS = ("world.num_processes",)


def decide(context: Context) -> Iterator[Setting]:
    if context.value("distributed.strategy") != "auto":
        return
    processes = context.whole("world.num_processes")
    strategy = "single" if processes == 1 else "ddp"
    why = "one process" if processes == 1 else f"{processes} processes, each with the whole model"
    yield decided("distributed.strategy", strategy, ID, why, context.settings)


def check(context: Context) -> Iterator[Finding]:
    strategy, processes = context.text("distributed.strategy"), context.whole("world.num_processes")
    if strategy == "single" and processes > 1:
        yield context.finding(
            ID,
            f"strategy single cannot have {processes} processes",
            "distributed.strategy",
            because=["each would train alone and write into the same folder"],
            fix="strategy: ddp",
            patch=[Patch(("distributed", "strategy"), "ddp")],
        )
    if strategy == "fsdp2" and context.value("world.device") == "cpu":
        yield context.finding(
            ID,
            "fsdp2 cannot run on the CPU",
            "distributed.strategy",
            because=["accelerate turns a CPU run into plain DDP without a word"],
            fix="strategy: ddp",
            patch=[Patch(("distributed", "strategy"), "ddp")],
        )
