"""Reads vision-language models from config.json: a covered decoder behind a tower and a projector."""

import math
from collections.abc import Mapping

from grpo_recipes.user_files.architecture import Architecture, Vision, positive, read_architecture, vision_linears

# Values missing in a text_config or vision_config are the defaults of its class in transformers 5.23.0.
_OF_TEXT = ("hidden_size", "intermediate_size", "num_hidden_layers", "vocab_size", "num_attention_heads")
_TEXT = {
    "llama": (4096, 11008, 32, 32000, 32, None),
    "mistral": (4096, 14336, 32, 32000, 32, 8),
    "qwen2": (4096, 22016, 32, 151936, 32, 32),
    "gemma3_text": (2304, 9216, 26, 262208, 8, 4),
}
_OF_QWEN = {"qwen2_vl": "qwen2", "qwen2_vl_text": "qwen2", "qwen2_5_vl": "qwen2", "qwen2_5_vl_text": "qwen2"}
_SIZES = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "image_size", "patch_size")
_TOWERS = {
    "idefics3": (1152, 3072, 12, 16, 224, 32),
    "smolvlm": (1152, 3072, 12, 16, 224, 32),
    "gemma3": (768, 3072, 12, 12, 224, 16),
    "llava": (768, 3072, 12, 12, 224, 32),
    "llava_next": (768, 3072, 12, 12, 224, 32),
    "qwen2_vl": (1280, None, 32, 16, 14, 14),
    "qwen2_5_vl": (3584, 3420, 32, 16, 14, 14),
}
SEEING = tuple(_TOWERS)


def read_vision_model(config: Mapping[str, object]) -> Architecture | None:
    """Returns the parts of a vision-language model from its config.json; None for one that is not covered.

    Source: transformers, models/<model_type>/modeling_<model_type>.py and configuration_<model_type>.py.
    """
    family, vision_config = str(config.get("model_type")), config.get("vision_config")
    if family not in _TOWERS or not isinstance(vision_config, Mapping):
        return None
    inner = config.get("text_config")
    text = {**config, "model_type": None, **inner} if isinstance(inner, Mapping) else {**config}
    usual = "gemma3_text" if family == "gemma3" else "llama"
    kind = str(text["model_type"] or usual)
    kind = _OF_QWEN.get(kind, kind)
    if kind not in _TEXT:
        return None
    tied = config.get("tie_word_embeddings", text.get("tie_word_embeddings", family == "gemma3"))
    sizes = dict(zip((*_OF_TEXT, "num_key_value_heads"), _TEXT[kind], strict=True))
    sizes["num_key_value_heads"] = sizes["num_key_value_heads"] or text.get("num_attention_heads", 32)  # type: ignore
    decoder = read_architecture({**sizes, **text, "model_type": kind, "tie_word_embeddings": tied})
    vision = None if decoder is None else _vision(family, config, vision_config, decoder.hidden)
    return None if decoder is None or vision is None else decoder._replace(vision=vision)


def _vision(family: str, config: Mapping[str, object], vision: Mapping[str, object], text: int) -> Vision | None:
    """Returns tower and projector. text: the decoder's hidden size."""
    of_qwen = family in _OF_QWEN
    is_gated = family == "qwen2_5_vl"
    own = {"num_hidden_layers": vision.get("depth"), "num_attention_heads": vision.get("num_heads")} if of_qwen else {}
    if family == "qwen2_vl":  # whose hidden_size is the decoder's
        own |= {"hidden_size": vision.get("embed_dim")}
        own["intermediate_size"] = _times(own["hidden_size"] or 1280, vision.get("mlp_ratio", 4))
    given = {**vision, **own} if of_qwen else vision
    values = [positive(given.get(n) or usual) for n, usual in zip(_SIZES, _TOWERS[family], strict=True)]
    sizes = [size for size in values if size is not None]
    tower = str(vision.get("model_type"))
    is_clip = family.startswith("llava")
    if len(sizes) < len(values) or (is_clip and tower != "clip_vision_model"):
        return None
    chosen = config.get("vision_feature_layer", -2) if is_clip else -1
    if not isinstance(chosen, int):
        return None
    if family == "gemma3" and (tower != "siglip_vision_model" or vision.get("vision_use_head") is not False):
        return None
    hidden, intermediate, layers, heads, image, patch = sizes
    merge = positive(vision.get("spatial_merge_size") or 2) if of_qwen else positive(config.get("scale_factor") or 2)
    tile, side = 0 if of_qwen else (image // patch) ** 2, 1 if is_clip else merge or 1
    elements = 3 * patch**2 * (positive(vision.get("temporal_patch_size") or 2) or 2 if of_qwen else 1)
    linears = vision_linears(hidden, intermediate, of_qwen, is_gated)
    projector: tuple[tuple[str, int, int], ...] = ()
    norms = (2 if is_gated else 4) * hidden
    of_a_layer = sum((inputs + 1) * outputs for inputs, outputs in linears.values()) + norms
    wide = hidden * side**2
    if of_qwen:
        projector = ("visual.merger.mlp.0", wide, wide), ("visual.merger.mlp.2", wide, text)
        beside = wide + text + (1 if is_gated else 2) * hidden
    elif is_clip:
        bias = config.get("multimodal_projector_bias", True) is not False
        projector = ("multi_modal_projector.linear_1", hidden, text), ("multi_modal_projector.linear_2", text, text)
        beside = 2 * text * bias + text * (family == "llava_next") + (tile + 1 + 1 + 4) * hidden
    elif family == "gemma3":
        beside = hidden * text + hidden + (1 + tile + 2) * hidden
        tokens = positive(config.get("mm_tokens_per_image") or 256) or 256
        side = max(1, round((tile / tokens) ** 0.5))
    else:
        projector, beside = (("connector.modality_projection.proj", wide, text),), (1 + tile + 2) * hidden
    unused = min(layers - 1, max(0, -1 - chosen if chosen < 0 else layers - chosen))
    return Vision(
        hidden=hidden,
        intermediate=intermediate,
        layers=layers,
        heads=heads,
        tile=tile,
        patch=elements,
        merged=side**2,
        parameters=layers * of_a_layer
        + elements * hidden
        + beside
        + sum(inputs * outputs for _, inputs, outputs in projector),
        projector=projector,
        is_inside=of_qwen,
        is_fused=of_qwen,
        is_gated=is_gated,
        is_quick="quick" in str(vision.get("hidden_act", "quick_gelu" if is_clip or family == "qwen2_vl" else "")),
        keeps_states=is_clip,
        has_masks=family in ("idefics3", "smolvlm"),
        idle=unused * of_a_layer + 2 * hidden * is_clip,
    )


def _times(size: object, ratio: object) -> int | None:
    number = positive(size)
    return None if number is None or not isinstance(ratio, int | float) else int(number * ratio)


def most_of_an_image(
    config: Mapping[str, object], processor: Mapping[str, object], most: int | None
) -> tuple[int, int] | None:
    """Returns the maximum numbers and tokens that a processor makes of an image; None for a model that is not covered.

    most: pixels of the largest image, None for any size. A tile of Idefics3 has five extra tokens, and one of
    LLaVA-NeXT one for each line. Source: transformers, models/<model_type>/image_processing_<model_type>.py and
    processing_<model_type>.py.
    """
    architecture, family = read_vision_model(config), config.get("model_type")
    if architecture is None or architecture.vision is None:
        return None
    vision = architecture.vision
    if vision.is_fused:
        named = _size(processor, "size", "longest_edge") or positive(processor.get("max_pixels")) or 28 * 28 * 1280
        if most is not None:  # edges are rounded to 28 pixels: the limit holds up to an aspect ratio of seven
            named = min(named, most + 42 * math.isqrt(most) + 28**2)
        least = _size(processor, "size", "shortest_edge") or positive(processor.get("min_pixels")) or 56 * 56
        patches = -(-max(named, least) // (vision.patch // 6))
        return patches * vision.patch, -(-patches // vision.merged)
    tiles, tokens = 1, vision.tile // vision.merged
    if family in ("idefics3", "smolvlm") and processor.get("do_image_splitting") is not False:
        tile = _size(processor, "max_image_size", "longest_edge") or 364
        tiles = (-(-(_size(processor, "size", "longest_edge") or 4 * tile) // tile)) ** 2 + 1
        tokens += 5
    if family == "llava_next":
        pinpoints, side = config.get("image_grid_pinpoints"), round((vision.tile * vision.patch // 3) ** 0.5)
        grids = [size for size in pinpoints if isinstance(size, list)] if isinstance(pinpoints, list) else []
        tiles = max((math.prod(-(-(positive(edge) or side) // side) for edge in grid) for grid in grids), default=4) + 1
        tokens += round(vision.tile**0.5)
    return tiles * vision.tile * vision.patch, tiles * tokens + 4


def _size(processor: Mapping[str, object], name: str, edge: str) -> int | None:
    named = processor.get(name)
    return positive(named.get(edge)) if isinstance(named, Mapping) else None
