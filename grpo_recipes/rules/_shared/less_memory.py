"""Changes that make a recipe need less of each GPU, the cheapest first, for a rule."""

from collections.abc import Callable, Iterator, Mapping
from math import ceil
from typing import NamedTuple

from grpo_recipes.contract.findings.finding import Patch
from grpo_recipes.memory.estimate import TIGHT, MemoryNeeds
from grpo_recipes.memory.layout import VLLM_LEFT_BYTES, cache_bytes
from grpo_recipes.memory.update import Adapter, FourBits
from grpo_recipes.rules._shared.batch_cut import has_cut
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import is_quantized
from grpo_recipes.rules._shared.machines import GIB
from grpo_recipes.rules._shared.vllms_gpu import place
from grpo_recipes.user_files.architecture import read_architecture

MOST_WAYS = 3
SIZE, CHECKPOINTING = ("training", "per_device_train_batch_size"), ("training", "gradient_checkpointing")
STRATEGY = ("distributed", "strategy")
_SHARDS = ("zero1", "zero2", "zero3")
_MORE_GPUS = (2, 4, 8, 16, 32, 64, 128)
_LARGEST_GIB = 288
_COPIES = "a different experiment: it updates float32 copies"

Change = Callable[[MemoryNeeds], MemoryNeeds]


class Way(NamedTuple):
    """A change that is enough. said: the change and its cost; patch: for the recipe, only if the experiment stays the
    same.
    """

    said: str
    patch: tuple[Patch, ...]


class _MachineChange(NamedTuple):
    """A change of the execution, which leaves the experiment unchanged."""

    text: str
    cost: str
    patch: Patch
    change: Change


def less_memory(
    context: Context, needs: MemoryNeeds, *, shards_learn_the_same: bool, vllms_copy: float | None
) -> list[Way]:
    """At most three ways to fit: one change, then several, other GPUs, and last a different experiment.

    shards_learn_the_same: a sharded strategy instead of one without shards leaves the experiment unchanged.
    vllms_copy: GiB of the weights in vLLM's share, None if unknown.
    """
    is_same = shards_learn_the_same or needs.layout.strategy in _SHARDS
    ways = [
        *_with_vllm(context, needs),
        *_with_a_lower_share(needs, vllms_copy),
        *_alone(context, needs, is_same),
        *_together(context, needs, is_same),
    ]
    lowest = None if ways else _lowest_share(needs, vllms_copy)
    if lowest is not None:
        needs = _with_share(needs, lowest)
        ways = [*_alone(context, needs, is_same), *_together(context, needs, is_same)]
    ways = [*(ways or _other_gpus(context, needs, is_same)), *_other_experiments(context, needs, is_same)]
    if lowest is not None:
        ways = [Way(f"vllm_gpu_memory_utilization: {lowest} with {way.said}", ()) for way in ways]
    return ways[:MOST_WAYS]


def _peak(needs: MemoryNeeds) -> float:
    """The share of the GPU that is needed, infinite if unknown."""
    peak = needs.estimate().peak()
    return peak.total() / needs.gpu_bytes if peak is not None and needs.gpu_bytes else float("inf")


def _peak_text(needs: MemoryNeeds) -> str:
    return f"{_peak(needs) * (needs.gpu_bytes or 0) / GIB:.1f} GiB"


def _steps(context: Context, needs: MemoryNeeds, is_same: bool) -> Iterator[_MachineChange]:
    """The changes that keep the experiment, the cheapest first."""
    for size in _sizes(context, needs):
        yield _MachineChange(f"per_device_train_batch_size: {size}", "", Patch(SIZE, size), _cut_to(size))
    if not needs.update.is_checkpointing:
        yield _MachineChange(
            "gradient_checkpointing: true",
            "about a fifth slower",
            Patch(CHECKPOINTING, True),
            lambda n: n._replace(update=n.update._replace(is_checkpointing=True)),
        )
    if is_same:
        for strategy in _heavier(context, needs):
            patch = Patch(STRATEGY, strategy)
            yield _MachineChange(f"strategy: {strategy}", "more traffic between the GPUs", patch, _shard(strategy))


def _sizes(context: Context, needs: MemoryNeeds) -> list[int]:
    """The smaller micro-batches that leave the experiment unchanged, the largest first."""
    least = None if has_cut(context) else _smallest(context, needs)
    return [] if least is None else [size for size in _divisors(needs.update.batch) if size >= least]


def _heavier(context: Context, needs: MemoryNeeds) -> tuple[str, ...]:
    """The sharded strategies beyond the recipe's, if DeepSpeed can be used."""
    if needs.layout.processes == 1 or not context.stack.version("deepspeed") or is_quantized(context):
        return ()
    sharding = _SHARDS if needs.update.adapter is None else _SHARDS[:2]
    return sharding[_place(needs.layout.strategy) :]


def _with_vllm(context: Context, needs: MemoryNeeds) -> Iterator[Way]:
    """The change of a recipe that would generate with vLLM if it were installed, with the largest micro-batch."""
    section, share = context.source.values.get("generation"), context.value("GRPOConfig.vllm_gpu_memory_utilization")
    is_left_open = isinstance(section, Mapping) and section.get("use_vllm") == "auto"
    if not is_left_open or context.stack.version("vllm") is not None or place(context) != "colocate":
        return
    held = float(share) if isinstance(share, int | float) else None
    generating = needs._replace(layout=needs.layout._replace(generation="vllm_colocate", vllm_share=held))
    training = context.source.values.get("training")
    written = training.get(SIZE[1], "auto") if isinstance(training, Mapping) else "auto"
    for size in (needs.update.batch, *_sizes(context, needs)):
        changed = _cut_to(size)(generating)
        if _peak(changed) <= TIGHT:
            # The plan with vLLM chooses a size that was not written.
            beside = "" if written == "auto" or size == needs.update.batch else f", with {SIZE[1]}: {size}"
            yield Way(f"install vllm, so that generation.use_vllm: auto uses it{beside} ({_peak_text(changed)})", ())
            return


def _with_a_lower_share(needs: MemoryNeeds, copy: float | None) -> Iterator[Way]:
    """The largest share for vLLM that fits and holds a completion. No patch, since its speed is not known."""
    lowest = _lowest_share(needs, copy)
    if lowest is None:
        return
    for hundredths in range(ceil(100 * (needs.layout.vllm_share or 0)) - 1, round(100 * lowest) - 1, -1):
        changed = _with_share(needs, hundredths / 100)
        if _peak(changed) <= TIGHT:
            yield Way(
                f"vllm_gpu_memory_utilization: {hundredths / 100} ({_peak_text(changed)}, less cache for vLLM)", ()
            )
            return


def _lowest_share(needs: MemoryNeeds, copy: float | None) -> float | None:
    """The smallest share for vLLM that holds a completion, None if it is not below the recipe's, or unknown."""
    architecture, share = read_architecture(needs.config or {}), needs.layout.vllm_share
    if needs.layout.generation != "vllm_colocate" or architecture is None or share is None or copy is None:
        return None
    cache = cache_bytes(architecture._replace(windows=None), needs.update, 1)
    least = ceil(100 * (copy * GIB + VLLM_LEFT_BYTES + cache) / (needs.gpu_bytes or 1)) / 100
    return least if least < share else None


def _with_share(needs: MemoryNeeds, share: float) -> MemoryNeeds:
    return needs._replace(layout=needs.layout._replace(vllm_share=share))


def _alone(context: Context, needs: MemoryNeeds, is_same: bool) -> Iterator[Way]:
    """Each kind of change that is enough by itself, at its cheapest."""
    kinds: set[str] = set()
    for step in _steps(context, needs, is_same):
        kind = step.text.partition(":")[0]
        changed = step.change(needs)
        if kind not in kinds and _peak(changed) <= TIGHT:
            kinds.add(kind)
            cost = ", ".join(filter(None, (_peak_text(changed), step.cost)))
            yield Way(f"{step.text} ({cost})", (step.patch,))


def _together(context: Context, needs: MemoryNeeds, is_same: bool) -> Iterator[Way]:
    """All kinds of changes together, if none is enough by itself."""
    last = {step.text.partition(":")[0]: step for step in _steps(context, needs, is_same)}
    is_alone = any(_peak(step.change(needs)) <= TIGHT for step in last.values())
    changed, _ = _least(context, needs, is_same)
    if len(last) > 1 and not is_alone and _peak(changed) <= TIGHT:
        text = " with ".join(step.text for step in last.values())
        yield Way(f"{text} ({_peak_text(changed)})", tuple(step.patch for step in last.values()))


def _least(context: Context, needs: MemoryNeeds, is_same: bool) -> tuple[MemoryNeeds, str]:
    """The least that the same experiment needs on these GPUs, and the changes that it takes."""
    texts = []
    for step in {step.text.partition(":")[0]: step for step in _steps(context, needs, is_same)}.values():
        changed = step.change(needs)
        texts += [step.text] if _peak(changed) < _peak(needs) else []
        needs = changed
    return needs, "".join(f" with {text}" for text in texts)


def _other_gpus(context: Context, needs: MemoryNeeds, is_same: bool) -> Iterator[Way]:
    """The memory that each GPU would need, or the fewest GPUs that hold a sharded training."""
    least, changes = _least(context, needs, is_same)
    of_each = _peak(least) * (needs.gpu_bytes or 0) / TIGHT / GIB
    if of_each <= _LARGEST_GIB:
        yield Way(f"GPUs with {of_each:.0f} GiB{changes}", ())
    if not context.stack.version("deepspeed") or is_quantized(context) or needs.update.adapter is not None:
        return
    for count in _MORE_GPUS:
        tried = _shard("zero3")(least)
        tried = tried._replace(layout=tried.layout._replace(processes=count))
        if count > needs.layout.processes and _shares_out(context, count) and _peak(tried) <= TIGHT:
            cost = _peak_text(tried) if is_same else f"{_peak_text(tried)}, {_COPIES}"
            yield Way(f"strategy: zero3 on {count} of these GPUs{changes} ({cost})", ())
            return


def _shares_out(context: Context, processes: int) -> bool:
    """Whether the completions of a step split evenly over this many GPUs, as far as known."""
    prompts = context.value("training.prompts_per_step")
    return not isinstance(prompts, int) or prompts * context.whole("GRPOConfig.num_generations") % processes == 0


def _other_experiments(context: Context, needs: MemoryNeeds, is_same: bool) -> Iterator[Way]:
    """Changes that train a different experiment, and say so."""
    for strategy in () if is_same else _heavier(context, needs):
        changed = _shard(strategy)(needs)
        if _peak(changed) <= TIGHT:
            yield Way(f"strategy: {strategy} ({_peak_text(changed)}, {_COPIES})", ())
            break
    for base, changes in ((needs, ""), _least(context, needs, is_same)):
        tried = _smaller(base)
        text = next((text for text, changed in tried.items() if _peak(changed) <= TIGHT), None)
        if text is not None:
            yield Way(f"{text}{changes} ({_peak_text(tried[text])}, a different experiment)", ())
            return


def _smaller(needs: MemoryNeeds) -> dict[str, MemoryNeeds]:
    """The needs with narrower weights or an adapter, by the text that a recipe has for it."""
    layout = needs.layout._replace(has_reference=False)
    half = needs.update._replace(weight_width=2)
    small = half._replace(adapter=Adapter(16, "all-linear", 4))
    four = small._replace(four_bits=FourBits(2, True))
    tried = {
        "dtype: bfloat16 with lora: {r: 16}": needs._replace(update=small, layout=layout),
        "quantization: {load_in_4bit: true} with lora": needs._replace(update=four, layout=layout),
    }
    if needs.update.adapter is not None:
        return {"dtype: bfloat16": needs._replace(update=half)} if needs.update.weight_width == 4 else {}
    return tried


def _smallest(context: Context, needs: MemoryNeeds) -> int | None:
    """The smallest micro-batch that the target and the loss allow, None if the size is fixed."""
    if any(context.value(f"batch.{key}") is True for key in ("one_prompt", "in_one_piece", "whole_groups")):
        return None
    return 1 if needs.update.batch > 1 else None


def _divisors(size: int) -> list[int]:
    """Smaller sizes that divide a process' completions, the largest first."""
    return [divisor for divisor in range(size // 2, 0, -1) if size % divisor == 0]


def _cut_to(size: int) -> Change:
    def change(needs: MemoryNeeds) -> MemoryNeeds:
        update = needs.update
        parts = update.accumulation * update.batch // size
        return needs._replace(update=update._replace(batch=size, accumulation=parts))

    return change


def _shard(strategy: str) -> Change:
    def change(needs: MemoryNeeds) -> MemoryNeeds:
        update = needs.update._replace(caches_copies=strategy != "zero3")
        return needs._replace(update=update, layout=needs.layout._replace(strategy=strategy))  # type: ignore[arg-type]

    return change


def _place(strategy: str) -> int:
    """The number of sharded strategies up to this one."""
    return _SHARDS.index(strategy) + 1 if strategy in _SHARDS else 3 if strategy == "fsdp2" else 0
