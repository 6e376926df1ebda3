"""Tiny models that see, and rows with a drawn square whose colour is asked for."""

import io
import json
import random
from pathlib import Path
from typing import Any

COLOURS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255), "white": (255, 255, 255)}
QUESTION = "what colour is the square?"
SIDE = 28
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{% if message['content'] is string %}{{ message['content'] }}"
    "{% else %}{% for part in message['content'] %}{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}"
    "{% endif %}{% endfor %}{% endif %}<|im_end|>{% endfor %}{% if add_generation_prompt %}<|im_start|>{% endif %}"
)
_WORDS = ["<pad>", "<unk>", "<|im_start|>", "<|im_end|>", "<image>", "<fake_token_around_image>", "<global-img>"]
_WORDS += [f"<row_{row}_col_{column}>" for row in range(1, 7) for column in range(1, 7)] + ["<end_of_utterance>"]


def write_seeing_model(folder: Path, family: str = "idefics3") -> Path:
    """Writes an untrained model of a family, idefics3 or llava_next, and its processor; gives the folder."""
    import torch
    import transformers as library

    tokenizer = _tokenizer()
    ids = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id, "bos_token_id": None}
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    text = library.LlamaConfig(
        vocab_size=len(tokenizer),
        **sizes,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=0.1,
        **ids,
    )
    image = tokenizer.convert_tokens_to_ids("<image>")
    sees: dict[str, Any] = {**sizes, "image_size": SIDE, "patch_size": 7}
    config: Any
    if family == "idefics3":
        config = library.Idefics3Config(
            text_config=text,
            vision_config=sees,
            scale_factor=2,
            image_token_id=image,
            tie_word_embeddings=False,
            pad_token_id=tokenizer.pad_token_id,
        )
        images = _image_processor("idefics3", "Idefics3")(
            size={"longest_edge": SIDE}, max_image_size={"longest_edge": SIDE}, do_image_splitting=False
        )
        processor = library.Idefics3Processor(images, tokenizer, image_seq_len=4, chat_template=TEMPLATE)
        kind: Any = library.Idefics3ForConditionalGeneration
    else:
        grid = [[SIDE, 2 * SIDE], [2 * SIDE, SIDE]]
        config = library.LlavaNextConfig(
            text_config=text,
            vision_config=library.CLIPVisionConfig(**sees, projection_dim=32),
            image_token_index=image,
            image_grid_pinpoints=grid,
            vision_feature_layer=-1,
            tie_word_embeddings=False,
        )
        images = _image_processor("llava_next", "LlavaNext")(
            size={"shortest_edge": SIDE}, crop_size={"height": SIDE, "width": SIDE}, image_grid_pinpoints=grid
        )
        processor = library.LlavaNextProcessor(
            images,
            tokenizer,
            patch_size=7,
            vision_feature_select_strategy="default",
            num_additional_image_tokens=1,
            chat_template=TEMPLATE,
        )
        kind = library.LlavaNextForConditionalGeneration
    torch.manual_seed(0)
    model = kind(config)
    model.generation_config = library.GenerationConfig(**ids)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def _image_processor(family: str, name: str) -> Any:
    """The class that needs no torchvision; the only one before transformers 5."""
    import importlib

    import transformers

    try:
        module = importlib.import_module(f"transformers.models.{family}.image_processing_pil_{family}")
    except ModuleNotFoundError:
        return getattr(transformers, f"{name}ImageProcessor")
    return getattr(module, f"{name}ImageProcessorPil")


def _tokenizer() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = [*_WORDS, *letters]
    tokens = Tokenizer(models.BPE(vocab={word: place for place, word in enumerate(words)}, merges=[]))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokens.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokens,
        pad_token="<pad>",
        eos_token="<|im_end|>",
        unk_token="<unk>",
        additional_special_tokens=[word for word in _WORDS if word not in ("<pad>", "<|im_end|>", "<unk>")],
        padding_side="left",
        model_max_length=512,
        model_input_names=["input_ids", "attention_mask"],
    )


def square(colour: str, drawn: random.Random, side: int = 56) -> Any:
    """An image of Pillow: a square of a colour, somewhere on black."""
    from PIL import Image, ImageDraw

    image = Image.new("RGB", (side, side), (0, 0, 0))
    x, y = drawn.randrange(side // 5), drawn.randrange(side // 5)
    ImageDraw.Draw(image).rectangle([x, y, x + 5 * side // 7, y + 5 * side // 7], fill=COLOURS[colour])
    return image


def png(image: Any) -> bytes:
    """The bytes of a file."""
    written = io.BytesIO()
    image.save(written, "PNG")
    return written.getvalue()


def write_squares(folder: Path, count: int = 24, per_row: int = 1, seed: int = 1) -> Path:
    """Writes a .jsonl file of questions beside a folder of images, whose paths its column `picture` has."""
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
