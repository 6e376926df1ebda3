"""Computes how a run is divided among its GPUs, and what each of them permanently holds of the model."""

from typing import Literal, NamedTuple

from grpo_recipes.memory.update import FourBits, Update
from grpo_recipes.user_files.architecture import Architecture

_BLOCK = 64
_BLOCK_OF_BLOCKS = 256
# Bytes of state for each trained parameter: a constant for any type, or per byte of a parameter.
# Source: torch, optim/adamw.py; transformers, training_args.py: OptimizerNames; bitsandbytes,
# optim/adamw.py: two states of 8 bits, and a float32 for every 256 of them.
_PER_BYTE = {"adamw_torch": 2.0, "adamw_torch_fused": 2.0, "sgd": 0.0, "rmsprop": 1.0, "adagrad": 1.0}
_PER_PARAMETER = {"adamw_8bit": 2 + 8 / 256, "adamw_bnb_8bit": 2 + 8 / 256, "lion_8bit": 1 + 4 / 256}
_ON_THE_HOST = ("paged_adamw_8bit", "paged_adamw_32bit", "paged_adamw")


def weight_bytes(architecture: Architecture, update: Update) -> int:
    """Bytes of the model's weights as loaded, with linear modules in four bits if quantized, without an adapter."""
    width, quantized = update.weight_width, linear_parameters(architecture)
    if update.four_bits is None:
        return architecture.parameters() * width
    return (architecture.parameters() - quantized) * width + four_bit_bytes(quantized, update.four_bits)


def linear_parameters(architecture: Architecture) -> int:
    """The weights of all linear modules except the output layer, including those of a vision part.

    Source: transformers, quantizers/base.py: get_modules_to_not_convert, which skips only the output layer.
    """
    of_vision = 0 if architecture.vision is None else architecture.vision.linear_parameters()
    return architecture.layers * architecture.linear_parameters() + of_vision


def four_bit_bytes(parameters: int, four_bits: FourBits) -> int:
    """Bytes of four-bit weights with a scale for every 64: float32, or 8 bits and a float32 for every 256 scales.

    Source: bitsandbytes, functional.py: quantize_4bit; its code tables of a few bytes are left out.
    """
    scales = parameters // _BLOCK
    return parameters // 2 + (scales + 4 * (scales // _BLOCK_OF_BLOCKS) if four_bits.is_double else 4 * scales)


def trained_parameters(architecture: Architecture, update: Update) -> int:
    """The parameters with a gradient: all, or the adapter's. Without images the vision part has none."""
    vision, adapter = architecture.vision, update.adapter
    if adapter is None:
        still = 0 if vision is None else vision.idle if update.pixels else vision.parameters
        return architecture.parameters() - still
    of_vision = 0 if vision is None else adapter.vision_parameters(vision)
    return architecture.layers * adapter.parameters(architecture) + of_vision


def trained_width(update: Update) -> int:
    """Bytes of one trained parameter, its gradient and each state of a plain optimizer."""
    return update.weight_width if update.adapter is None else update.adapter.width


def optimizer_bytes(optimizer: str, parameters: int, width: int) -> int | None:
    """Bytes of an optimizer's states; None for an unknown optimizer. width: bytes of a parameter."""
    if optimizer in _ON_THE_HOST:
        return 0
    if optimizer in _PER_PARAMETER:
        return round(_PER_PARAMETER[optimizer] * parameters)
    return round(_PER_BYTE[optimizer] * parameters * width) if optimizer in _PER_BYTE else None


def optimizer_step_bytes(optimizer: str, parameters: int, width: int) -> int:
    """Temporary memory of a step: lists as large as the parameters, unless fused.

    Source: torch, optim/adam.py: _multi_tensor_adam, whose square roots are a new list.
    """
    return parameters * width if optimizer == "adamw_torch" else 0


Strategy = Literal["single", "ddp", "zero1", "zero2", "zero3", "fsdp2"]
Generation = Literal["transformers", "vllm_colocate", "vllm_server"]
_MASTER = 4
_LIVE_PARAMETERS = 1_000_000_000
_SUB_GROUP = 1_000_000_000


class Layout(NamedTuple):
    """The GPUs and their load outside an update.

    processes: one GPU each. has_reference: a second model for the KL term, which an adapter does not need. scores:
    log-probabilities are computed before the update. keeps_gathered: FSDP2 keeps a layer whole from its forward to its
    backward pass. sequences: completions that one process generates at once.
    vllm_share: of the GPU, for vLLM's weights and cache in the same process, None for as much as it needs; vllm_cache:
    bytes of a fixed-size cache, which vLLM takes beyond the weights, whatever its share; vllm_ranks: GPUs that share
    one engine. gathers_to_generate: ZeRO-3 gathers all parameters to generate with transformers. evaluates:
    transformers also generates held-out completions, one micro-batch at a time; asks_vllm: vLLM generates them.
    warms_up: supervised steps come first.
    """

    strategy: Strategy
    processes: int
    generation: Generation
    sequences: int
    has_reference: bool = False
    scores: bool = False
    offloads_optimizer: bool = False
    offloads_weights: bool = False
    keeps_gathered: bool = False
    vllm_share: float | None = None
    vllm_cache: int | None = None
    vllm_sleeps: bool = False
    vllm_ranks: int = 1
    gathers_to_generate: bool = True
    evaluates: bool = False
    asks_vllm: bool = False
    warms_up: bool = False

    def shards_weights(self) -> bool:
        """Whether each process holds only a part of the weights."""
        return self.strategy in ("zero3", "fsdp2")

    def parts(self, kind: Literal["weights", "gradients", "optimizer"]) -> int:
        """How many parts each kind of state is split into. Source: deepspeed 0.19.8, runtime/zero/; torch 2.13.0,
        fully_shard.
        """
        cut = {"zero1": ("optimizer",), "zero2": ("optimizer", "gradients")}.get(self.strategy, ())
        return self.processes if self.shards_weights() or kind in cut else 1


class States(NamedTuple):
    """Bytes of each GPU: gathered is what a strategy assembles for a layer, buckets what it sends from.

    copied: gradients that DeepSpeed copies for a step. initial: what DeepSpeed allocates before the first step.
    """

    weights: int
    adapter: int
    gradients: int
    optimizer: int
    reference: int
    buckets: int
    gathered: int
    copied: int
    initial: int


def states(architecture: Architecture, update: Update, layout: Layout) -> States | None:
    """Each GPU's part of weights, gradients and optimizer states; None for an unknown optimizer.

    DeepSpeed adds a float32 copy of each trained parameter to the optimizer's states (deepspeed,
    runtime/zero/stage_1_and_2.py, stage3.py: fp32 groups); FSDP2 has trained parameters in float32 (accelerate,
    utils/fsdp_utils.py: upcast for mixed precision). Gradients are on the optimizer's device (stage3.py:
    grad_partitions_flat_buffer; stage_1_and_2.py: async_accumulate_grad_in_cpu_via_gpu), and a reference is offloaded
    like the model (trl, models/utils.py: prepare_deepspeed).
    """
    count, width = trained_parameters(architecture, update), trained_width(update)
    is_deepspeed = layout.strategy.startswith("zero")
    wide = _MASTER if is_deepspeed or layout.strategy == "fsdp2" else width
    optimizer = optimizer_bytes(update.optimizer, count, wide)
    if optimizer is None:
        return None
    optimizer += count * _MASTER if is_deepspeed else 0
    weights = weight_bytes(architecture, update)
    stored = count * _MASTER if layout.strategy == "fsdp2" and update.adapter is None else weights
    gradients = count * (_MASTER if layout.strategy == "fsdp2" else width)
    is_on_host = layout.offloads_optimizer and layout.strategy in ("zero2", "zero3")
    has_reference = layout.has_reference and update.adapter is None and not layout.offloads_weights
    return States(
        weights=0 if layout.offloads_weights else stored // layout.parts("weights"),
        adapter=(count * width) // layout.parts("weights") if update.adapter is not None else 0,
        gradients=0 if is_on_host else gradients // layout.parts("gradients"),
        optimizer=0 if layout.offloads_optimizer else optimizer // layout.parts("optimizer"),
        reference=weights // layout.parts("weights") if has_reference else 0,
        buckets=_buckets(architecture, update, layout, gradients),
        gathered=_gather_bytes(architecture, update, layout),
        copied=_copy_bytes(count, layout) if is_deepspeed and not layout.offloads_optimizer else 0,
        initial=_initial(count, width, layout) if is_deepspeed and not layout.offloads_optimizer else 0,
    )


def _copy_bytes(count: int, layout: Layout) -> int:
    """A second copy of a process's float32 gradients, for ZeRO-3 one parameter group at a time.

    Source: deepspeed, runtime/zero/stage_1_and_2.py: step; stage3.py: _prepare_fp32_grad_for_sub_group;
    config.py: sub_group_size.
    """
    part = count // layout.parts("optimizer")
    return (min(part, _SUB_GROUP) if layout.strategy == "zero3" else part) * _MASTER


def _initial(count: int, width: int, layout: Layout) -> int:
    """A process's float32 copy and zero gradients; before that, ZeRO-1 and 2 hold all trained weights twice.

    Source: deepspeed, runtime/zero/stage_1_and_2.py: flatten_dense_tensors_aligned, initialize_optimizer_states;
    stage3.py: _setup_for_real_optimizer.
    """
    part = 2 * _MASTER * count // layout.parts("optimizer")
    return part if layout.strategy == "zero3" else max(part, count * width)


def _buckets(architecture: Architecture, update: Update, layout: Layout, gradients: int) -> int:
    """The buffers that gradients are sent from.

    DDP has a copy of all (torch, nn/parallel/distributed.py: gradient_as_bucket_view); DeepSpeed two buckets of
    hidden_size squared, which transformers writes for "auto" (5.23.0, integrations/deepspeed.py); FSDP2 the gradients
    of a layer and their copy (torch, distributed/fsdp/_fully_shard/_fsdp_collectives.py: foreach_reduce).
    """
    if layout.strategy == "ddp":
        return gradients
    width = trained_width(update)
    if layout.strategy == "fsdp2":
        adapted = update.adapter.parameters(architecture) if update.adapter is not None else None
        return 2 * width * (architecture.layer_parameters() if adapted is None else adapted)
    return 2 * architecture.hidden**2 * width if layout.strategy.startswith("zero") else 0


def _gather_bytes(architecture: Architecture, update: Update, layout: Layout) -> int:
    """Parameters that are temporarily whole.

    ZeRO-3 keeps up to 1e9 of them live (deepspeed, runtime/zero/config.py: stage3_max_live_parameters). It sends
    them in the mixed-precision type and converts them to the loaded width (partition_parameters.py:
    AllGatherCoalescedHandle); one process gathers nothing (NoGatherCoalescedHandle). FSDP2 has the current layer, the
    next one, and the embeddings, which it leaves whole, or every layer if it does not reshard them (torch 2.13.0,
    distributed/fsdp/_fully_shard: reshard_after_forward, also that of the root).
    """
    if not layout.shards_weights():
        return 0
    width = update.weight_width
    if layout.strategy == "zero3":
        if layout.processes == 1:
            return 0
        least = 2 * architecture.layer_parameters() + architecture.embedding_parameters()
        return min(architecture.parameters(), max(_LIVE_PARAMETERS, least)) * width
    if layout.keeps_gathered:
        return architecture.parameters() * width
    return (2 * architecture.layer_parameters() + architecture.embedding_parameters()) * width


VLLM_LEFT_BYTES = 3 * 2**29
"""Memory of a sleeping engine, for CUDA graphs and its own context: an allowance of 1.5 GiB, not measured here."""


def cache_bytes(architecture: Architecture, update: Update, sequences: int) -> int:
    """Keys and values of all layers for full-length sequences. Source: transformers, cache_utils.py:
    DynamicLayer.
    """
    each = 2 * architecture.key_value_heads * architecture.head_dim * update.weight_width
    return round(sequences * architecture.tokens_in_cache(update.length, at_once=update.prompt)) * each


def vllm_bytes(layout: Layout, gpu_bytes: int | None, needed: int) -> int:
    """The memory of vLLM in a training process: its share of the GPU, or its need if either is unknown.

    With a fixed-size cache it takes no share. Source: vllm 0.31.0, v1/worker/gpu_worker.py: determine_available_memory.
    """
    if gpu_bytes is None or layout.vllm_share is None or layout.vllm_cache is not None:
        return needed
    return round(layout.vllm_share * gpu_bytes)


def vllm_needs(architecture: Architecture, update: Update, layout: Layout) -> int:
    """The weights in 16 bits and the cache of its sequences, divided by the GPUs of one engine.

    With a fixed-size cache, that cache, and an allowance for what is outside it.
    Sliding windows are ignored: how vLLM lays out a cache of two kinds of layers was not studied; it takes no more.
    """
    if layout.vllm_cache is not None:
        return 2 * architecture.parameters() // layout.vllm_ranks + layout.vllm_cache + VLLM_LEFT_BYTES
    sequences = layout.sequences * layout.vllm_ranks
    cache = cache_bytes(architecture._replace(windows=None), update._replace(weight_width=2), sequences)
    return (2 * architecture.parameters() + cache) // layout.vllm_ranks
