"""The estimate: what each phase of a run holds on each GPU, and whether that fits."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from grpo_recipes.memory.layout import (
    VLLM_LEFT_BYTES,
    Layout,
    States,
    cache_bytes,
    states,
    vllm_bytes,
    vllm_needs,
)
from grpo_recipes.memory.moments import Moments, generation_bytes, moments, scoring_bytes
from grpo_recipes.memory.update import Update
from grpo_recipes.user_files.architecture import Architecture, read_architecture

Verdict = Literal["fits", "tight", "does not fit", "unknown"]
TIGHT = 0.92
"""The share of a GPU above which a run is tight, since the formulas are not exact."""
CERTAIN = ("weights", "adapter", "reference", "gradients", "optimizer", "context")
"""Terms that do not depend on how long prompts and completions get."""


class Term(NamedTuple):
    """One thing that a GPU holds in a phase, in bytes."""

    name: str
    size: int


class MemoryPhase(NamedTuple):
    """A phase of a step, with the memory in use at its peak."""

    name: str
    terms: tuple[Term, ...]

    def total(self) -> int:
        """The bytes of all terms."""
        return sum(term.size for term in self.terms)

    def size_of(self, name: str) -> int:
        """The bytes of a term, 0 without it."""
        return sum(term.size for term in self.terms if term.name == name)

    def certain(self) -> int:
        """The bytes that are needed even for short prompts and completions."""
        return sum(term.size for term in self.terms if term.name in CERTAIN)


class MemoryEstimate(NamedTuple):
    """The memory that a run needs on each GPU. unknown: why it cannot be estimated, else "". gpu_bytes: None is
    unknown.
    """

    phases: tuple[MemoryPhase, ...]
    gpu_bytes: int | None
    unknown: str = ""

    def peak(self) -> MemoryPhase | None:
        """The phase that needs the most memory."""
        return max(self.phases, key=MemoryPhase.total, default=None)

    def by_phase(self) -> dict[str, dict[str, int]]:
        """Bytes by the name of a term, by the phase."""
        return {phase.name: {term.name: term.size for term in phase.terms} for phase in self.phases}

    def verdict(self) -> Verdict:
        """Whether the largest phase fits on the GPU."""
        peak = self.peak()
        if peak is None or self.gpu_bytes is None:
            return "unknown"
        if peak.total() > self.gpu_bytes:
            return "does not fit"
        return "tight" if peak.total() > TIGHT * self.gpu_bytes else "fits"


def estimate(
    config: Mapping[str, object] | None, update: Update, layout: Layout, gpu_bytes: int | None = None
) -> MemoryEstimate:
    """Estimates the memory that a run needs on each GPU, phase by phase.

    config: config.json of the model. The estimate is unknown if the model or the optimizer is not covered.
    """
    if config is None:
        return MemoryEstimate((), gpu_bytes, "the model's config.json is not on this machine")
    architecture = read_architecture(config)
    if architecture is None:
        from grpo_recipes.user_files.vision_model import read_vision_model  # not needed for a text model

        architecture = read_vision_model(config)
    if architecture is None:
        why = f"models of type {config.get('model_type')} are not covered"
        if config.get("vision_config") is not None:
            why += ": neither the vision part nor the tokens of images; a run with --smoke measures them"
        return MemoryEstimate((), gpu_bytes, why)
    held, computed = states(architecture, update, layout), _moments(architecture, update, layout)
    if held is None or computed is None:
        return MemoryEstimate((), gpu_bytes, f"the size of the states of {update.optimizer} is unknown")
    return MemoryEstimate(_phases(architecture, update, layout, held, computed, gpu_bytes), gpu_bytes)


def _moments(architecture: Architecture, update: Update, layout: Layout) -> Moments | None:
    """The moments of an update. If gradients are partitioned, no whole gradient stays until a micro-batch ends.

    The first micro-batch then holds them as later ones do: partitioned, plus the current one. ZeRO-2 and 3 do so
    with one process too. Source: deepspeed, runtime/zero/stage3.py: grad_partitions_flat_buffer,
    partition_grads; stage_1_and_2.py: copy_grads_in_partition; torch,
    distributed/fsdp/_fully_shard/_fsdp_collectives.py: foreach_reduce.
    """
    is_cut = layout.parts("gradients") > 1 or layout.strategy in ("zero2", "zero3")
    return moments(architecture, update._replace(accumulation=max(2, update.accumulation)) if is_cut else update)


def _phases(
    architecture: Architecture,
    update: Update,
    layout: Layout,
    held: States,
    computed: Moments,
    gpu_bytes: int | None,
) -> tuple[MemoryPhase, ...]:
    """The phases in order, each with permanent and temporary memory."""
    stays = {"weights": held.weights, "adapter": held.adapter, "reference": held.reference}
    # TRL keeps those of all rows until the next generation (1.16.0, trainer/grpo_trainer.py: _prepare_inputs).
    image_bytes = 0 if architecture.vision is None else architecture.vision.image_bytes(update.pixels)
    images = {"images": layout.sequences * image_bytes}
    trained = {"optimizer": held.optimizer, "buckets": held.buckets}
    if layout.strategy == "zero3":  # they stay from the start
        trained["gradients"] = held.gradients
    overhead = {"libraries": LIBRARIES}
    if update.device == "cuda":
        overhead = {"context": _CONTEXT, "communicators": _COMMUNICATORS if layout.processes > 1 else 0}
    tensor = architecture.vocabulary * architecture.hidden * update.weight_width
    loading = {"largest tensor": tensor}
    if layout.strategy == "ddp" and (sent := min(held.weights + held.adapter, _BROADCAST)) > tensor:
        loading = {"broadcast": sent}
    loading |= {"optimizer": held.initial}
    needed = vllm_needs(architecture, update, layout)
    pool = vllm_bytes(layout, gpu_bytes, needed) if layout.generation == "vllm_colocate" else 0
    idle = {"vllm": (VLLM_LEFT_BYTES if layout.vllm_sleeps else pool) if pool else 0}
    # vLLM takes its whole share when it starts, after the policy; asleep, it is woken for weights without the cache.
    syncing = {"vllm": min(pool, needed) if layout.vllm_sleeps else pool}
    always, gathered = stays | trained | overhead | images, {"gathered": held.gathered}
    scored = scoring_bytes(architecture, update)
    update_holds = _updating(computed, held, layout, update.accumulation > 1)
    # The warm start makes whole logits, whatever TRL does.
    supervised = _moments(architecture, update._replace(output="logits"), layout) if layout.warms_up else None
    warm_holds = {} if supervised is None else _updating(supervised, held, layout, update.accumulation > 1)
    phases = [
        _phase("load", stays | overhead, {"vllm": pool} if pool else loading),
        _phase("warm_start", always | idle | gathered, warm_holds, _holes(update)) if warm_holds else None,
        _phase("generate", always, _generating(architecture, update, layout, pool, held)),
        _evaluating(layout, always, idle, pool, _answering(architecture, update, layout, update.batch, held)),
        _phase("score", always | idle | gathered, {"activations": scored}) if layout.scores else None,
        _phase("update", always | idle | gathered, update_holds, _holes(update)),
        _phase("sync", always, {**syncing, **_sync_bytes(update, layout, held, tensor)}) if pool else None,
        _phase("save", always | idle, {"largest tensor": tensor}),
    ]
    return tuple(phase for phase in phases if phase is not None)


def _holes(update: Update) -> float:
    """The share of an update's temporary memory that malloc holds beyond the slack, on a CPU."""
    keeps_all = update.adapter is not None and not update.is_checkpointing
    return _HOLES if update.device == "cpu" and keeps_all else 0.0


def _phase(name: str, stays: Mapping[str, int], computes: Mapping[str, int], holes: float = 0.0) -> MemoryPhase:
    """A phase, with the allocator's slack for temporary memory; terms of 0 are left out."""
    slack = round((_SLACK + holes) * sum(size for term, size in computes.items() if term != "vllm"))
    terms = {**stays, **computes, "slack": slack}
    return MemoryPhase(name, tuple(Term(term, size) for term, size in terms.items() if size))


def _generating(architecture: Architecture, update: Update, layout: Layout, pool: int, held: States) -> dict[str, int]:
    """The memory of generation: vLLM's share, nothing for a server, or that of transformers."""
    if layout.generation != "transformers":
        return {"vllm": pool}
    return _answering(architecture, update, layout, layout.sequences, held)


def _evaluating(
    layout: Layout, always: Mapping[str, int], idle: Mapping[str, int], pool: int, answering: Mapping[str, int]
) -> MemoryPhase | None:
    """The memory of an evaluation: that of vLLM's generation, or of transformers next to vLLM."""
    if not layout.evaluates:
        return None
    if layout.asks_vllm:
        return _phase("evaluation", always, {"vllm": pool})
    return _phase("evaluation", {**always, **idle}, answering)


def _answering(
    architecture: Architecture, update: Update, layout: Layout, sequences: int, held: States
) -> dict[str, int]:
    """The memory of transformers while it generates this many completions at once.

    TRL gathers all parameters of ZeRO-3 for it, unless told otherwise (1.16.0, trainer/grpo_trainer.py:
    ds3_gather_for_generation).
    """
    is_whole = layout.strategy == "zero3" and layout.gathers_to_generate and layout.processes > 1
    whole = architecture.parameters() * update.weight_width if is_whole else held.gathered
    return {
        "cache": cache_bytes(architecture, update, sequences),
        "generation": generation_bytes(architecture, update, sequences),
        "gathered": whole if layout.shards_weights() else 0,
    }


def _sync_bytes(update: Update, layout: Layout, held: States, tensor: int) -> dict[str, int]:
    """The memory of sending weights to vLLM: one tensor at a time, or all, to merge an adapter into sharded weights.

    Source: trl, generation/vllm_generation.py: _iter_named_params.
    """
    if update.adapter is not None and layout.shards_weights():
        return {"gathered": held.weights * layout.processes}
    return {"largest tensor": tensor}


def _updating(computed: Moments, held: States, layout: Layout, accumulates: bool) -> dict[str, int]:
    """The temporary memory at the peak of an update: gradients, activations and workspace.

    A step works on a process's part of the states. ZeRO-1 copies its part of the gradients out of all, and
    ZeRO-2 has the part of one micro-batch in addition to that of the earlier ones, until both are added (deepspeed,
    runtime/zero/stage_1_and_2.py: copy_grads_in_partition, independent_gradient_partition_epilogue).
    """
    constant = computed.weights + computed.adapter + computed.optimizer
    moments = computed.in_order()
    has_part_beside = layout.strategy == "zero1" or (layout.strategy == "zero2" and accumulates)
    peaks = []
    for at, (moment, has_gradients) in enumerate(moments, start=1):
        gradients = held.gradients if has_gradients else 0
        beside = moment - constant - (computed.gradients if has_gradients else 0)
        beside //= layout.parts("optimizer") if at == len(moments) else 1
        if at == len(moments):
            gradients += held.copied
        elif at == len(moments) - 1 and has_part_beside and held.gradients:
            gradients += computed.gradients // layout.parts("optimizer")
        saved = min(beside, computed.activations)
        peaks.append({"gradients": gradients, "activations": saved, "output layer and workspace": beside - saved})
    return max(peaks, key=lambda terms: sum(terms.values()))


LIBRARIES = 600 * 2**20
"""Resident memory of Python with torch, transformers, trl, peft and datasets in a process that trains on the CPU.

Measured as what trainings of 0.4 and 135 million parameters held in addition to their tensors: 540 to 660 MiB. With
them the estimate of the larger was 2 % above its peak, alone and in two processes, where freed blocks went back to the
kernel; glibc's malloc by itself leaves holes in addition."""
_BROADCAST = 2 * 250 * 2**20
"""Copies in which DDP sends all weights from the first process to the others, at most two of 250 MiB at a time.

Source: torch, nn/parallel/distributed.py: broadcast_bucket_size; csrc/distributed/c10d/comm.cpp:
broadcast_coalesced."""
_CONTEXT = 600 * 2**20
"""The context of CUDA, kernels of torch and cuBLAS's workspaces: 0.5 to 0.7 GiB on recent GPUs."""
_COMMUNICATORS = 500 * 2**20
"""Buffers of NCCL for one communicator over several GPUs."""
_SLACK = 0.04
"""The memory that the caching allocator holds and cannot use, as a share of temporary memory.

Source: torch 2.13.0, c10/cuda/CUDACachingAllocator.cpp, which gives a freed block to a smaller
request and keeps the rest."""
_HOLES = 0.38
"""What glibc's malloc holds beyond the slack in an adapter's update without checkpointing on a CPU, as a share of
temporary memory.

Measured with SmolLM2-135M, in micro-batches of 4, 8 and 32 rows of 224 tokens: 0.33 to 0.41. With malloc mapping each
block by itself it was nothing, and in an update of all weights 0.03 to 0.05."""


class MemoryNeeds(NamedTuple):
    """The inputs of a memory estimate. gpu_bytes: of the smallest GPU. assumed: assumptions about values not in the
    recipe. short_prompt: tokens of a short prompt if the length of prompts is assumed, None if it is known.
    """

    config: Mapping[str, object] | None
    update: Update
    layout: Layout
    gpu_bytes: int | None
    assumed: tuple[str, ...]
    short_prompt: int | None = None

    def estimate(self) -> MemoryEstimate:
        """The estimate for each GPU, phase by phase."""
        return estimate(self.config, self.update, self.layout, self.gpu_bytes)

    def least(self) -> MemoryEstimate | None:
        """The estimate for short prompts, None if the length of prompts is known."""
        if self.short_prompt is None:
            return None
        return self._replace(update=self.update._replace(prompt=self.short_prompt), short_prompt=None).estimate()
