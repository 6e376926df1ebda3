"""Describes one update of a training, as far as its memory depends on it."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from grpo_recipes.user_files.architecture import Architecture, Vision

Attention = Literal["sdpa", "eager", "flash_attention_2"]
Output = Literal["fused", "logits", "kernel"]
Device = Literal["cuda", "cpu"]


class Adapter(NamedTuple):
    """A plain LoRA adapter. targets: "all-linear" or ends of module names; width: bytes of one of its weights.

    spares_vision: excludes the vision tower and every module that has the tower's name in its path.
    """

    r: int
    targets: str | tuple[str, ...]
    width: int
    has_dropout: bool = False
    spares_vision: bool = False

    def adapts(self, module: str) -> bool:
        """Whether a linear module of a layer, such as "mlp.up_proj", has an adapter."""
        if isinstance(self.targets, str):
            return True
        return any(module == target or module.endswith(f".{target}") for target in self.targets)

    def adapts_experts(self) -> bool:
        """Whether a layer's expert weights have an adapter, as PEFT adds it to those of transformers 5."""
        return any(self.adapts(f"mlp.experts.{name}") for name in ("gate_proj", "up_proj", "down_proj"))

    def parameters(self, architecture: Architecture) -> int:
        """The adapter's weights in one layer, r * (inputs + outputs) for each adapted module.

        Source: peft, tuners/lora/layer.py; ParamWrapper for experts, with rank r for each, and twice that for
        gate and up, which are one weight (utils/transformers_weight_conversion.py).
        """
        linears = architecture.linears()
        dense = sum(self.r * sum(shape) for name, shape in linears.items() if self.adapts(name))
        experts = architecture.experts
        if experts is None:
            return dense
        hidden, inner = architecture.hidden, experts.intermediate
        routed = self.r * experts.number * (2 * (hidden + 2 * inner) + inner + hidden) if self.adapts_experts() else 0
        return dense + routed + (self.r * (hidden + experts.number) if self.adapts("mlp.gate") else 0)

    def vision_parameters(self, vision: Vision) -> int:
        """The adapter's weights in the vision part."""
        tower = [(name, *shape) for name, shape in vision.linears().items()] * vision.layers
        adapted = [] if self.spares_vision else tower
        adapted += [] if self.spares_vision and vision.is_inside else vision.projector
        return sum(self.r * (inputs + outputs) for name, inputs, outputs in adapted if self.adapts(name))


class FourBits(NamedTuple):
    """Linear modules in four bits. compute_width: bytes of their compute type; is_double: absmax is quantized too."""

    compute_width: int
    is_double: bool


class Update(NamedTuple):
    """One optimizer step of one process.

    weight_width: bytes of a weight as the model is loaded; autocast_width: of the mixed-precision type, None without
    it. batch: completions in a micro-batch; prompt, completion: maximum tokens; accumulation: micro-batches in a step.
    is_padded: prompts differ in length. output: how probabilities are computed from the last hidden states.
    caches_copies: autocast keeps its copies of weights until a forward pass is over; the shim zero_autocast turns that
    off for ZeRO-3. pixels: the maximum numbers that the processor makes of a row's images.
    """

    weight_width: int
    autocast_width: int | None
    four_bits: FourBits | None
    adapter: Adapter | None
    is_checkpointing: bool
    attention: Attention
    batch: int
    prompt: int
    completion: int
    accumulation: int
    optimizer: str
    output: Output
    is_padded: bool = True
    device: Device = "cuda"
    caches_copies: bool = True
    pixels: int = 0

    @property
    def width(self) -> int:
        """Bytes of one element that a linear module computes."""
        return self.autocast_width or self.weight_width

    @property
    def casts_weights(self) -> bool:
        """Whether mixed precision copies the weights to compute with them."""
        return self.width != self.weight_width

    @property
    def copies_logits(self) -> bool:
        """Whether whole logits are copied to float32. Under DeepSpeed the shim zero_autocast does it.

        Source: accelerate, accelerator.py: prepare_model.
        """
        return self.autocast_width is not None

    @property
    def length(self) -> int:
        """Tokens of one row."""
        return self.prompt + self.completion

    @property
    def tokens(self) -> int:
        """Tokens of a micro-batch, including padding."""
        return self.batch * self.length

    def trains_weights(self) -> bool:
        """Whether the model's own weights are trained, rather than an adapter."""
        return self.adapter is None


def ends(targets: str | Sequence[str]) -> str | tuple[str, ...] | None:
    """An adapter's targets as PEFT reads them; None for a regular expression, which is not evaluated."""
    if isinstance(targets, str):
        return "all-linear" if targets.lower() == "all-linear" else None
    return tuple(targets)
