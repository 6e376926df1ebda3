"""Computes a decoder's parts and sizes from its config.json alone."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

_MOST_LAYERS = 1000
_LARGEST_SIZE = 1 << 32
_FAMILIES = ("qwen2", "qwen3", "llama", "mistral", "qwen3_moe", "gemma3_text", "phi3", "olmo2")
_NOT_COVERED = ("resid_pdrop", "use_bidirectional_attention", "final_logit_softcapping")
_GEMMA_WINDOW, _GEMMA_PATTERN = 4096, 6


class Experts(NamedTuple):
    """The experts of a layer: their number, the number used per token, and the width of each."""

    number: int
    per_token: int
    intermediate: int


class Windows(NamedTuple):
    """Sliding-window layers: their number, and the window in tokens."""

    layers: int
    tokens: int


class LayerStyle(NamedTuple):
    """How the layers of a family differ; the defaults are Llama's.

    norms: before attention and MLP, after them, or around them. scales_wide: a norm multiplies with its weight before
    rounding to the type of its input. has_whole_norms: those of queries and keys are over all heads at once. is_fused:
    one linear module makes queries, keys and values, and one gate and up. rotates_wide: positions are float32 and make
    the heads so, until they are rounded. rotated: the share of a head that is rotated.
    """

    norms: Literal["before", "after", "around"] = "before"
    scales_wide: bool = False
    has_whole_norms: bool = False
    is_fused: bool = False
    rotates_wide: bool = False
    rotated: float = 1.0


class Vision(NamedTuple):
    """A tower of equal ViT layers, and the projector that turns its output into tokens.

    idle: parameters behind the layer that is read, which have no gradient.
    tile: patches that attend to each other, 0 for all of an image. patch: elements of its pixel values. parameters: of
    tower and projector. projector: its linear modules, as linears() has those of a layer; is_inside: they are part of
    the tower by name. merged: patches of a token. is_fused: one linear module makes queries, keys and values,
    and positions turn them. is_gated: RMSNorm and a gated MLP. is_quick: GELU by way of a sigmoid. keeps_states: the
    output of each layer is held until the last one is done.
    """

    hidden: int
    intermediate: int
    layers: int
    heads: int
    tile: int
    patch: int
    merged: int
    parameters: int
    projector: tuple[tuple[str, int, int], ...]
    is_inside: bool = False
    is_fused: bool = False
    is_gated: bool = False
    is_quick: bool = False
    keeps_states: bool = False
    idle: int = 0
    has_masks: bool = False

    def image_bytes(self, pixels: int) -> int:
        """The bytes of the processor's output for images of this many numbers: float32, and an int64 for each pixel of
        a mask.
        """
        return 4 * pixels + (8 * pixels // 3 if self.has_masks else 0)

    def linears(self) -> dict[str, tuple[int, int]]:
        """The linear modules of one layer: name -> (inputs, outputs)."""
        return vision_linears(self.hidden, self.intermediate, self.is_fused, self.is_gated)

    def linear_parameters(self) -> int:
        """The weights of all linear modules: what bitsandbytes quantizes."""
        of_a_layer = sum(inputs * outputs for inputs, outputs in self.linears().values())
        return self.layers * of_a_layer + sum(inputs * outputs for _, inputs, outputs in self.projector)


def vision_linears(hidden: int, intermediate: int, is_fused: bool, is_gated: bool) -> dict[str, tuple[int, int]]:
    """The linear modules of one layer of a tower; each has a bias."""
    square, names = (hidden, hidden), ("q_proj", "k_proj", "v_proj", "out_proj")
    linears = {f"self_attn.{name}": square for name in names}
    if is_fused:
        linears = {"attn.qkv": (hidden, 3 * hidden), "attn.proj": square}
    wide = ("gate_proj", "up_proj") if is_gated else ("fc1",)
    linears |= {f"mlp.{name}": (hidden, intermediate) for name in wide}
    return linears | {"mlp.down_proj" if is_gated else "mlp.fc2": (intermediate, hidden)}


class Architecture(NamedTuple):
    """A decoder of equal layers: attention with rotary positions, RMSNorm, a gated MLP or experts.

    *_bias: whether it has a bias. has_head_norms: q_norm and k_norm. experts: None is a dense MLP of `intermediate`.
    windows: None if all layers attend to everything, as far as memory is concerned. vision: None for a model of text
    alone.
    """

    hidden: int
    intermediate: int
    layers: int
    vocabulary: int
    heads: int
    key_value_heads: int
    head_dim: int
    is_tied: bool
    query_bias: bool
    output_bias: bool
    mlp_bias: bool
    has_head_norms: bool
    experts: Experts | None
    style: LayerStyle = LayerStyle()
    windows: Windows | None = None
    vision: Vision | None = None

    def linears(self) -> dict[str, tuple[int, int]]:
        """The linear modules of one layer, without those of experts: name -> (inputs, outputs)."""
        query, key_value = self.heads * self.head_dim, self.key_value_heads * self.head_dim
        if self.style.is_fused:
            return {
                "self_attn.qkv_proj": (self.hidden, query + 2 * key_value),
                "self_attn.o_proj": (query, self.hidden),
                "mlp.gate_up_proj": (self.hidden, 2 * self.intermediate),
                "mlp.down_proj": (self.intermediate, self.hidden),
            }
        attention = {
            "self_attn.q_proj": (self.hidden, query),
            "self_attn.k_proj": (self.hidden, key_value),
            "self_attn.v_proj": (self.hidden, key_value),
            "self_attn.o_proj": (query, self.hidden),
        }
        if self.experts is not None:
            return attention
        mlp = {
            "mlp.gate_proj": (self.hidden, self.intermediate),
            "mlp.up_proj": (self.hidden, self.intermediate),
            "mlp.down_proj": (self.intermediate, self.hidden),
        }
        return attention | mlp

    def linear_parameters(self) -> int:
        """The weights in the linear modules of one layer, which bitsandbytes quantizes."""
        return sum(inputs * outputs for inputs, outputs in self.linears().values())

    def expert_parameters(self) -> int:
        """The weights of all experts of one layer, which are not linear modules and keep their loaded type."""
        return 0 if self.experts is None else 3 * self.experts.number * self.experts.intermediate * self.hidden

    def other_parameters(self) -> int:
        """Norms, biases and the router of one layer."""
        linears = self.linears()
        biased = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"] if self.query_bias else []
        biased += ["self_attn.o_proj"] if self.output_bias else []
        biased += [name for name in linears if name.startswith("mlp.")] if self.mlp_bias else []
        router = 0 if self.experts is None else self.experts.number * self.hidden
        return sum(linears[name][1] for name in biased) + self._norm_parameters() + router

    def _norm_parameters(self) -> int:
        of_hidden = (4 if self.style.norms == "around" else 2) * self.hidden
        heads = self.heads + self.key_value_heads if self.style.has_whole_norms else 2
        return of_hidden + (heads * self.head_dim if self.has_head_norms else 0)

    def layer_parameters(self) -> int:
        """All parameters of one layer."""
        return self.linear_parameters() + self.expert_parameters() + self.other_parameters()

    def embedding_parameters(self) -> int:
        """The parameters of embedding, output layer where it has its own, last norm and vision part."""
        vision = 0 if self.vision is None else self.vision.parameters
        return self.vocabulary * self.hidden * (1 if self.is_tied else 2) + self.hidden + vision

    def parameters(self) -> int:
        """All parameters, tied embeddings once."""
        return self.layers * self.layer_parameters() + self.embedding_parameters()

    def tokens_in_cache(self, tokens: float, at_once: int = 0) -> float:
        """The number of cached key-value tokens for a sequence, summed over the layers.

        at_once: tokens from a single pass, which a sliding-window layer holds in full until the next token. Source:
        transformers, cache_utils.py: DynamicSlidingWindowLayer.update.
        """
        windows = self.windows
        if windows is None:
            return self.layers * tokens
        near = min(tokens, max(at_once, windows.tokens))
        return (self.layers - windows.layers) * tokens + windows.layers * near


def read_architecture(config: Mapping[str, object]) -> Architecture | None:
    """The architecture in a config.json, None if it is not covered.

    Covered are qwen2, qwen3, llama, mistral, gemma3_text, phi3, olmo2, and qwen3_moe with experts in every layer, as
    text models.
    Source: transformers, models/<model_type>/modeling_<model_type>.py and configuration_<model_type>.py.
    """
    family = config.get("model_type")
    if family not in _FAMILIES or any(config.get(name) for name in _NOT_COVERED):
        return None
    names = ("hidden_size", "intermediate_size", "num_hidden_layers", "vocab_size", "num_attention_heads")
    values = [positive(config.get(name)) for name in (*names, "num_key_value_heads")]
    numbers = [number for number in values if number is not None]
    tied = config.get("tie_word_embeddings", family == "gemma3_text")
    if len(numbers) < len(values) or numbers[2] > _MOST_LAYERS or not isinstance(tied, bool):
        return None
    experts = _experts(config) if family == "qwen3_moe" else None
    if family == "qwen3_moe" and experts is None:
        return None
    hidden, intermediate, layers, vocabulary, heads, key_value_heads = numbers
    is_biased = bool(config.get("attention_bias", False))
    usual = {"qwen3": 128, "gemma3_text": 256}.get(family, hidden // heads)
    return Architecture(
        hidden=hidden,
        intermediate=intermediate,
        layers=layers,
        vocabulary=vocabulary,
        heads=heads,
        key_value_heads=key_value_heads,
        head_dim=positive(config.get("head_dim")) or usual,
        is_tied=tied,
        query_bias=family == "qwen2" or (family not in ("mistral", "phi3") and is_biased),
        output_bias=family not in ("qwen2", "mistral", "phi3") and is_biased,
        mlp_bias=family == "llama" and bool(config.get("mlp_bias", False)),
        has_head_norms=family in ("qwen3", "qwen3_moe", "gemma3_text", "olmo2"),
        experts=experts,
        style=_style(family, config),
        windows=_windows(layers, config) if family == "gemma3_text" else None,
    )


def _style(family: str, config: Mapping[str, object]) -> LayerStyle:
    """The layer style of a family."""
    if family == "gemma3_text":
        return LayerStyle(norms="around", scales_wide=True)
    if family == "olmo2":
        return LayerStyle(norms="after", scales_wide=True, has_whole_norms=True, rotates_wide=True)
    if family != "phi3":
        return LayerStyle()
    rope = config.get("rope_parameters")
    share = (rope if isinstance(rope, Mapping) else config).get("partial_rotary_factor")
    return LayerStyle(is_fused=True, rotated=float(share) if isinstance(share, int | float) else 1.0)


def _windows(layers: int, config: Mapping[str, object]) -> Windows | None:
    """The windows of gemma3_text: of each layer but every sixth, unless its types are listed."""
    tokens = positive(config.get("sliding_window", _GEMMA_WINDOW))
    pattern = positive(config.get("sliding_window_pattern")) or _GEMMA_PATTERN
    types = config.get("layer_types")
    near = types.count("sliding_attention") if isinstance(types, list) else layers - layers // pattern
    return Windows(near, tokens) if tokens is not None and near else None


def _experts(config: Mapping[str, object]) -> Experts | None:
    """The experts of qwen3_moe; None if some layers have no experts."""
    count, per_token = positive(config.get("num_experts")), positive(config.get("num_experts_per_tok"))
    intermediate = positive(config.get("moe_intermediate_size"))
    if count is None or per_token is None or intermediate is None:
        return None
    if config.get("mlp_only_layers") or config.get("decoder_sparse_step", 1) != 1:
        return None
    return Experts(count, per_token, intermediate)


def positive(value: object) -> int | None:
    """A size, None for a missing one."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _LARGEST_SIZE else None
