"""The strategy fits the number of processes: `single` is one process, everything else is for several.

With `strategy: auto` one process is `single` and several are `ddp`. Where `ddp` does not fit, by the estimate of
`grpo-run fit` with the smallest micro-batch, it is the lightest of `zero1`, `zero2` and `zero3` that does, or the one
that needs least: where all weights are trained in float32 and the stack has a DeepSpeed that keeps them so, since they
learn the same then. `single` with several processes would start several independent runs that write into the same
folder. FSDP2 cannot run on the CPU: accelerate silently trains with plain DDP there.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.facts.released.windows import is_within
from grpo_recipes.rules._shared.context import Context, decided
from grpo_recipes.rules._shared.fitting import FILLED, share_needed
from grpo_recipes.rules._shared.loaded_model import quantized
from grpo_recipes.rules.autocast_keeps_the_weights import APPLIES_TO as KEEPS_FLOAT32
from grpo_recipes.settings import Setting

ID = "WLD003"
OWNS = ("distributed.strategy",)
READS = ("world.num_processes", "world.device")
STRATEGY = "distributed.strategy"
SHARDED = ("zero1", "zero2", "zero3")


def decide(context: Context) -> Iterator[Setting]:
    if context.value("distributed.strategy") != "auto":
        return
    processes = context.whole("world.num_processes")
    if processes == 1:
        yield decided("distributed.strategy", "single", ID, "one process", context.settings)
    else:
        strategy, why = _lightest(context, processes)
        yield decided("distributed.strategy", strategy, ID, why, context.settings)


def _lightest(context: Context, processes: int) -> tuple[str, str]:
    """The lightest strategy that fits, where none does the one that needs least, ddp where that is not known."""
    whole = f"{processes} processes, each with the whole model"
    needed = share_needed(context, {STRATEGY: "ddp"}, READS)
    if needed is None or needed <= FILLED or not learns_the_same_in_shards(context):
        return "ddp", whole
    shares = {one: share_needed(context, {STRATEGY: one}, READS) or needed for one in SHARDED}
    least = min(SHARDED, key=lambda one: shares[one])
    strategy = next((one for one in SHARDED if shares[one] <= FILLED), least)
    if shares[strategy] >= needed:
        return "ddp", f"{whole}; neither it nor zero1, zero2 or zero3 fits into the GPU, by an estimate"
    this = f"this {shares[strategy]:.0%}"
    return strategy, f"{processes} processes; ddp needs {needed:.0%} of the GPU, by an estimate, and {this}"


def learns_the_same_in_shards(context: Context) -> bool:
    """Whether this DeepSpeed trains as DDP does: float32 weights, under bf16 with torch's own autocast (PRE003)."""
    version, is_mixed = context.stack.version("deepspeed"), context.value("GRPOConfig.bf16") is True
    if version is None or context.value("GRPOConfig.fp16") is True or context.has_section("lora"):
        return False
    keeps = not is_mixed or is_within(version, KEEPS_FLOAT32["deepspeed"])
    return keeps and context.value("model_init_kwargs.dtype") == "float32" and not quantized(context)


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
