"""Makes tiny vision models, and rows that ask for the colour of a drawn square."""

import io
import json
import random
from pathlib import Path
from typing import Any

COLOURS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255), "white": (255, 255, 255)}
QUESTION = "what colour is the square?"
SIDE = 28
# The placeholder of an image in a prompt, by family; the processor expands it to the image's tokens.
PLACEHOLDERS = {
    "idefics3": "<image>",
    "llava_next": "<image>",
    "gemma3": "<boi>",
    "gemma4": "<img_soft>",
    "smolvlm": "<image>",
    "qwen2_vl": "<|vision_start|><|image_pad|><|vision_end|>",
    "paligemma": "<image>",
    "qwen2_5_vl": "<|vision_start|><|image_pad|><|vision_end|>",
    "qwen3_5": "<|vision_start|><|image_pad|><|vision_end|>",
    "qwen3_5_moe": "<|vision_start|><|image_pad|><|vision_end|>",
}
NEEDS_TORCHVISION = frozenset({"gemma4", "smolvlm", "qwen2_vl", "qwen2_5_vl", "qwen3_5", "qwen3_5_moe"})
"""Families whose processor also takes videos, which transformers only reads with torchvision."""
_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for part in message['content'] %}{% if part['type'] == 'image' %}PLACEHOLDER{% else %}"
    "{{ part['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>{% endif %}"
)
_WORDS = ["<pad>", "<unk>", "<|im_start|>", "<|im_end|>", "<image>", "<fake_token_around_image>", "<global-img>"]
_WORDS += [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)] + ["<end_of_utterance>"]
_WORDS += ["<boi>", "<eoi>", "<img_soft>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
_WORDS += ["<|video|>", "<|audio|>", "<boa>", "<eoa>"]
_SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}


def write_seeing_model(folder: Path, family: str = "idefics3", width: int = 32) -> Path:
    """Writes an untrained model of a family of PLACEHOLDERS, and its processor; returns the folder.

    width: of the hidden layers, with two heads.
    """
    import torch
    import transformers as library

    _SIZES["hidden_size"] = width
    tokenizer = _tokenizer(family)
    tokenizer.chat_template = _TEMPLATE.replace("PLACEHOLDER", PLACEHOLDERS[family])
    ids = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None}
    text = {
        "vocab_size": len(tokenizer),
        **_SIZES,
        "num_key_value_heads": 2,
        "max_position_embeddings": 512,
        "initializer_range": 0.1,
        **ids,
    }
    config, processor = globals()[f"_{family}"](library, tokenizer, text)
    torch.manual_seed(0)
    model = getattr(library, vars(config)["architectures"][0])(config)  # old Qwens have those of the text model
    model.generation_config = library.GenerationConfig(**ids)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def _idefics3(library: Any, tokenizer: Any, text: dict[str, Any]) -> tuple[Any, Any]:
    config = library.Idefics3Config(
        text_config=library.LlamaConfig(**text),
        vision_config={**_SIZES, "image_size": SIDE, "patch_size": 7},
        scale_factor=2,
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        tie_word_embeddings=False,
        pad_token_id=tokenizer.pad_token_id,
        architectures=["Idefics3ForConditionalGeneration"],
    )
    images = image_processor("idefics3", "Idefics3")(
        size={"longest_edge": SIDE}, max_image_size={"longest_edge": SIDE}, do_image_splitting=False
    )
    template = tokenizer.chat_template
    return config, library.Idefics3Processor(images, tokenizer, image_seq_len=4, chat_template=template)


def _llava_next(library: Any, tokenizer: Any, text: dict[str, Any]) -> tuple[Any, Any]:
    grid = [[SIDE, 2 * SIDE], [2 * SIDE, SIDE]]
    config = library.LlavaNextConfig(
        text_config=library.LlamaConfig(**text),
        vision_config=library.CLIPVisionConfig(**_SIZES, image_size=SIDE, patch_size=7, projection_dim=32),
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        image_grid_pinpoints=grid,
        vision_feature_layer=-1,
        tie_word_embeddings=False,
        architectures=["LlavaNextForConditionalGeneration"],
    )
    images = image_processor("llava_next", "LlavaNext")(
        size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE}, image_grid_pinpoints=grid
    )
    processor = library.LlavaNextProcessor(
        images,
        tokenizer,
        patch_size=7,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=tokenizer.chat_template,
    )
    return config, processor


def _gemma3(library: Any, tokenizer: Any, text: dict[str, Any]) -> tuple[Any, Any]:
    token = tokenizer.convert_tokens_to_ids
    config = library.Gemma3Config(
        text_config=library.Gemma3TextConfig(**text, head_dim=16, sliding_window=64),
        vision_config={**_SIZES, "image_size": SIDE, "patch_size": 7, "vision_use_head": False},
        mm_tokens_per_image=4,
        image_token_index=token("<img_soft>"),
        boi_token_index=token("<boi>"),
        eoi_token_index=token("<eoi>"),
        architectures=["Gemma3ForConditionalGeneration"],
    )
    images = image_processor("gemma3", "Gemma3")(size={"height": SIDE, "width": SIDE}, image_seq_length=4)
    processor = library.Gemma3Processor(images, tokenizer, chat_template=tokenizer.chat_template, image_seq_length=4)
    return config, processor


def _paligemma(library: Any, tokenizer: Any, text: dict[str, Any]) -> tuple[Any, Any]:
    images = image_processor("siglip", "Siglip")(size={"height": SIDE, "width": SIDE})
    images.image_seq_length = 16
    tokenizer.bos_token = "<|im_start|>"
    processor = library.PaliGemmaProcessor(images, tokenizer, chat_template=tokenizer.chat_template)
    config = library.PaliGemmaConfig(  # the processor has added tokens
        text_config={**text, "model_type": "gemma", "vocab_size": len(tokenizer), "head_dim": 16},
        vision_config={
            "model_type": "siglip_vision_model",
            **_SIZES,
            "image_size": SIDE,
            "patch_size": 7,
            "vision_use_head": False,
            "projection_dim": 32,
        },
        image_token_index=tokenizer.convert_tokens_to_ids("<image>"),
        projection_dim=32,
        hidden_size=32,
        architectures=["PaliGemmaForConditionalGeneration"],
    )
    return config, processor


def _gemma4(library: Any, tokenizer: Any, text: dict[str, Any]) -> tuple[Any, Any]:
    token = tokenizer.convert_tokens_to_ids
    seen = {**_SIZES, "num_key_value_heads": 2, "head_dim": 16, "global_head_dim": 16, "patch_size": 7}
    config = library.Gemma4Config(
        text_config={
            **text,
            "head_dim": 16,
            "global_head_dim": 16,
            "sliding_window": 64,
            "layer_types": ["sliding_attention", "full_attention"],
            "vocab_size_per_layer_input": text["vocab_size"],
            "hidden_size_per_layer_input": 8,
        },
        vision_config={**seen, "pooling_kernel_size": 2, "position_embedding_size": 64, "default_output_length": 4},
        audio_config=None,
        image_token_id=token("<img_soft>"),
        boi_token_id=token("<boi>"),
        eoi_token_id=token("<eoi>"),
        video_token_id=token("<|video|>"),
        vision_soft_tokens_per_image=4,
        architectures=["Gemma4ForConditionalGeneration"],
    )
    sized = {"patch_size": 7, "max_soft_tokens": 70, "pooling_kernel_size": 2}
    processor = library.Gemma4Processor(
        library.Gemma4AudioFeatureExtractor(),
        library.Gemma4ImageProcessor(**sized),
        tokenizer,
        library.Gemma4VideoProcessor(**sized),
        chat_template=tokenizer.chat_template,
        image_seq_length=70,
    )
    return config, processor


def _smolvlm(library: Any, tokenizer: Any, text: dict[str, Any]) -> tuple[Any, Any]:
    config, _ = _idefics3(library, tokenizer, text)
    seen = library.SmolVLMConfig(**{**config.to_dict(), "architectures": ["SmolVLMForConditionalGeneration"]})
    longest = {"longest_edge": SIDE}
    images = library.SmolVLMImageProcessor(size=longest, max_image_size=longest, do_image_splitting=False)
    video = library.SmolVLMVideoProcessor(size=longest, max_image_size=longest)
    template = tokenizer.chat_template
    return seen, library.SmolVLMProcessor(images, tokenizer, video, image_seq_len=4, chat_template=template)


def _qwen2_vl(library: Any, tokenizer: Any, text: dict[str, Any]) -> tuple[Any, Any]:
    seen = {"depth": 1, "embed_dim": 32, "hidden_size": text["hidden_size"], "num_heads": 2, "mlp_ratio": 2}
    seen |= {"patch_size": 14}
    return _of_qwen(library, tokenizer, text, "Qwen2VL", "Qwen2VL", seen)


def _qwen2_5_vl(library: Any, tokenizer: Any, text: dict[str, Any]) -> tuple[Any, Any]:
    seen = {"depth": 1, "hidden_size": 32, "out_hidden_size": 32, "num_heads": 2, "intermediate_size": 64}
    seen |= {"patch_size": 14, "window_size": 56, "fullatt_block_indexes": [0]}
    return _of_qwen(library, tokenizer, text, "Qwen2_5_VL", "Qwen2_5_VL", seen)


def _qwen3_5(library: Any, tokenizer: Any, text: dict[str, Any]) -> tuple[Any, Any]:
    return _of_qwen(library, tokenizer, {**text, **_LINEAR}, "Qwen3_5", "Qwen3VL", _SEEN_BY_QWEN3)


def _qwen3_5_moe(library: Any, tokenizer: Any, text: dict[str, Any]) -> tuple[Any, Any]:
    experts = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
    own = {**text, **_LINEAR, **experts, "shared_expert_intermediate_size": 32}
    return _of_qwen(library, tokenizer, own, "Qwen3_5Moe", "Qwen3VL", _SEEN_BY_QWEN3)


_LINEAR = {
    "head_dim": 16,
    "layer_types": ["linear_attention", "full_attention"],
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 2,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 16,
}
_SEEN_BY_QWEN3 = {
    "depth": 1,
    "hidden_size": 32,
    "out_hidden_size": 32,
    "num_heads": 2,
    "intermediate_size": 64,
    "patch_size": 14,
    "num_position_embeddings": 64,
}


def _of_qwen(
    library: Any, tokenizer: Any, text: dict[str, Any], name: str, processor: str, seen: dict[str, Any]
) -> tuple[Any, Any]:
    token = tokenizer.convert_tokens_to_ids
    half = text["hidden_size"] // text["num_attention_heads"] // 2
    # Qwen3.5 rotates a quarter of a head
    sections = [1, 0, 1] if "layer_types" in text else [half - 2 * (3 * half // 8), *[3 * half // 8] * 2]
    rope = {"rope_type": "default", "mrope_section": sections, "rope_theta": 10_000.0}
    if "out_hidden_size" in seen:
        seen = {**seen, "out_hidden_size": text["hidden_size"]}
    if library.__version__.startswith("4."):  # where these processors accept no other class of tokenizer
        tokenizer.__class__ = library.Qwen2TokenizerFast
        text = {**text, "rope_scaling": {"type": "mrope", "mrope_section": sections}}
    config = getattr(library, f"{name}Config")(
        text_config={**text, "rope_parameters": rope},
        vision_config=seen,
        image_token_id=token("<|image_pad|>"),
        video_token_id=token("<|video_pad|>"),
        vision_start_token_id=token("<|vision_start|>"),
        vision_end_token_id=token("<|vision_end|>"),
        tie_word_embeddings=False,
        architectures=[f"{name}ForConditionalGeneration"],
    )
    size = {"shortest_edge": 56 * 56, "longest_edge": 56 * 56}
    return config, getattr(library, f"{processor}Processor")(
        library.Qwen2VLImageProcessor(patch_size=14, size=size),
        tokenizer,
        getattr(library, "Qwen3VLVideoProcessor" if processor == "Qwen3VL" else "Qwen2VLVideoProcessor")(),
        chat_template=tokenizer.chat_template,
    )


def image_processor(family: str, name: str) -> Any:
    """Returns the class that needs no torchvision; the only one before transformers 5."""
    import importlib

    import transformers

    try:
        module = importlib.import_module(f"transformers.models.{family}.image_processing_pil_{family}")
    except ModuleNotFoundError:
        return getattr(transformers, f"{name}ImageProcessor")
    return getattr(module, f"{name}ImageProcessorPil")


def _tokenizer(family: str) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [*_WORDS, *letters]
    tokens = Tokenizer(models.BPE(vocab={word: place for place, word in enumerate(words)}, merges=[]))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokens.decoder = decoders.ByteLevel()
    named = (
        {"image_token": "<img_soft>", "boi_token": "<boi>", "eoi_token": "<eoi>"}
        if family.startswith("gemma")
        else None
    )
    if family == "gemma4":
        named |= {"audio_token": "<|audio|>", "boa_token": "<boa>", "eoa_token": "<eoa>"}
    words = [word for word in _WORDS if word not in ("<pad>", "<|im_end|>", "<unk>")]
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=tokens,
        pad_token="<pad>",
        eos_token="<|im_end|>",
        unk_token="<unk>",
        **({"extra_special_tokens": named} if named else {"additional_special_tokens": words}),
        padding_side="left",
        model_max_length=512,
        model_input_names=["input_ids", "attention_mask"],
    )
    tokenizer.add_tokens(words, special_tokens=True)
    return tokenizer


def square(colour: str, drawn: random.Random, side: int = 56) -> Any:
    """Returns a Pillow image of a coloured square at a random position on black."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (side, side), (0, 0, 0))
    x, y = drawn.randrange(side // 5), drawn.randrange(side // 5)
    ImageDraw.Draw(image).rectangle([x, y, x + 5 * side // 7, y + 5 * side // 7], fill=COLOURS[colour])
    return image


def png(image: Any) -> bytes:
    """Returns the bytes of an image as a PNG file."""
    written = io.BytesIO()
    image.save(written, "PNG")
    return written.getvalue()


def write_squares(folder: Path, count: int = 24, per_row: int = 1, seed: int = 1) -> Path:
    """Writes a .jsonl file of questions and a folder of images, whose paths are in the column `picture`."""
    drawn, rows = random.Random(seed), []
    (folder / "images").mkdir(parents=True, exist_ok=True)
    for place in range(count):
        colours = [drawn.choice(list(COLOURS)) for _ in range(per_row)]
        names = [f"images/{place}-{number}.png" for number in range(per_row)]
        for name, colour in zip(names, colours, strict=True):
            (folder / name).write_bytes(png(square(colour, drawn)))
        rows.append({"question": QUESTION, "answer": colours[-1], "picture": names[0] if per_row == 1 else names})
    file = folder / "squares.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return file
