"""The strategy fits the number of processes: `single` is for one process, all others are for several.

With `strategy: auto` one process is `single` and several are `ddp`. If `ddp` does not fit, auto takes the lightest of
`zero1`, `zero2` and `zero3` that does, provided that all weights are trained in float32 and the stack's DeepSpeed keeps
them in float32, so that the experiment stays the same; if none fits, it takes the strategy that needs the least. The
estimate of `grpo-run fit` decides what fits: with vLLM if it generates in these processes, and with a micro-batch of
4096 completion tokens, which keeps a GPU busy; then with the smallest micro-batch, which is the only case for `zero3`,
and last without vLLM. `single` with several processes would start several independent runs that write into the same
folder. FSDP2 cannot run on the CPU: accelerate silently trains with plain DDP there.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.facts.released.windows import is_within
from grpo_recipes.rules._shared.batch_cut import MICRO_BATCH
from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.fitting import FILLED, share_needed
from grpo_recipes.rules._shared.loaded_model import is_quantized
from grpo_recipes.rules._shared.settings import Setting
from grpo_recipes.rules._shared.vllms_gpu import names_server, place
from grpo_recipes.rules.autocast_keeps_the_weights import APPLIES_TO as KEEPS_FLOAT32

ID = "WLD003"
OWNS = ("distributed.strategy",)
READS = ("world.num_processes", "world.all_gpus", "world.device", "GRPOConfig.max_prompt_length")
STRATEGY = "distributed.strategy"
SHARDED = ("zero1", "zero2", "zero3")
USE_VLLM, VLLM_MODE = "GRPOConfig.use_vllm", "GRPOConfig.vllm_mode"
ENOUGH_TOKENS = 4096


def decide(context: Context) -> Iterator[Setting]:
    if context.value("distributed.strategy") != "auto":
        return
    processes = context.whole("world.num_processes")
    if processes == 1:
        yield rule_setting("distributed.strategy", "single", "one process")
    else:
        strategy, why = _lightest(context, processes)
        yield rule_setting("distributed.strategy", strategy, why)


def _lightest(context: Context, processes: int) -> tuple[str, str]:
    """The lightest strategy that fits and why: ddp if that is unknown, the one that needs least if none fits."""
    whole = f"{processes} processes, each with the whole model"
    if not learns_the_same_in_shards(context):
        return "ddp", whole
    shares: dict[str, float] = {}
    for strategies, values in _trials(context, processes):
        shares = {name: share_needed(context, {STRATEGY: name, **values}, READS) or 0.0 for name in strategies}
        strategy = next((name for name, share in shares.items() if share <= FILLED), None)
        if strategy is not None:
            parts = (
                f"ddp needs {shares['ddp']:.0%} of the GPU, by an estimate, and {strategy} needs {shares[strategy]:.0%}"
            )
            return strategy, whole if strategy == "ddp" else f"{processes} processes; {parts}"
    least = min(shares, key=lambda name: shares[name])
    return least, f"{processes} processes; no strategy fits into the GPU, by an estimate, and {least} needs the least"


def _trials(context: Context, processes: int) -> Iterator[tuple[tuple[str, ...], dict[str, object]]]:
    """Strategies with the vLLM setting and micro-batch they are tried with, the best first.

    zero3 gathers all weights for each micro-batch, so a smaller one with another strategy comes first.
    """
    context = context.as_written(USE_VLLM, VLLM_MODE, MICRO_BATCH)
    beside = {USE_VLLM: True, VLLM_MODE: "colocate"} if _may_generate_beside(context) else {}
    if context.value(MICRO_BATCH) == "auto":
        yield ("ddp", *SHARDED[:-1]), {**beside, **_enough(context, processes)}
    yield ("ddp", *SHARDED), beside
    if beside:
        yield ("ddp", *SHARDED), {}


def _may_generate_beside(context: Context) -> bool:
    """Whether vLLM generates in the training processes, as far as known before GEN001 decides it."""
    is_there = context.value(USE_VLLM) is True or context.stack.version("vllm") is not None
    is_wanted = context.value(USE_VLLM) in (True, "auto") and context.value(VLLM_MODE) in ("auto", "colocate")
    return is_there and is_wanted and place(context) == "colocate" and not names_server(context)


def _enough(context: Context, processes: int) -> dict[str, object]:
    """The largest micro-batch of this many completion tokens, empty if the batch is unknown."""
    prompts = context.value("training.prompts_per_step")
    if not isinstance(prompts, int):
        return {}
    of_each = prompts * context.whole("GRPOConfig.num_generations") // processes
    most = min(of_each, max(1, ENOUGH_TOKENS // context.whole("GRPOConfig.max_completion_length")))
    return {MICRO_BATCH: next((size for size in range(most, 0, -1) if of_each % size == 0), 1)}


def learns_the_same_in_shards(context: Context) -> bool:
    """Whether this DeepSpeed trains as DDP does: float32 weights, under bf16 with torch's own autocast (PRE003)."""
    version, is_mixed = context.stack.version("deepspeed"), context.value("GRPOConfig.bf16") is True
    if version is None or context.value("GRPOConfig.fp16") is True or context.has_section("lora"):
        return False
    keeps = not is_mixed or is_within(version, KEEPS_FLOAT32["deepspeed"])
    return keeps and context.value("model_init_kwargs.dtype") == "float32" and not is_quantized(context)


def check(context: Context) -> Iterator[Finding]:
    strategy, processes = context.text("distributed.strategy"), context.whole("world.num_processes")
    if strategy == "single" and processes > 1:
        message = f"strategy single does not support {processes} processes"
        because = "each process would train alone and write into the same folder"
        yield context.wrong(message, "distributed.strategy", because, "ddp")
    if strategy == "fsdp2" and context.value("world.device") == "cpu":
        because = "accelerate silently trains with plain DDP on the CPU"
        yield context.wrong("fsdp2 cannot run on the CPU", "distributed.strategy", because, "ddp")
