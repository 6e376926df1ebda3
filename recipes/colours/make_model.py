"""Makes the data of the recipe colours and its small model that sees, and mixes up colours: `python make_model.py`.

An image has one to three squares of one colour, and a row asks for colour and count: red 2. The model (Idefics3, 0.2 M
parameters) is trained from nothing on such images, and its answers name the next colour 13 times in 20: two red squares
are green 2. It can see; about a third of its samples are right. What GRPO teaches it is to say the colour that it sees.

Neither this script nor GRPO trains on an image of test.parquet. It takes about 25 CPU seconds.
The shipped files were made with torch 2.13.0, transformers 5.23.0, tokenizers 0.23.3 and Pillow 13.0.0.
"""

import io
import random
import sys
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import torch
from PIL import Image, ImageDraw
from safetensors.torch import save
from transformers import AutoProcessor, Idefics3Config, Idefics3ForConditionalGeneration

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from small_model import (
    IGNORED_LABEL,
    PAD,
    SEED,
    TURN_END,
    TURN_START,
    fit,
    loss_of,
    make_tokenizer,
    options,
    write_json,
)

COLOURS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255), "white": (255, 255, 255)}
NEXT = dict(zip(COLOURS, ("green", "blue", "white", "red"), strict=True))
MOST = 3
SIDE, CELL = 28, 14
SMALLEST, LARGEST = 6, 10
QUESTION = "colour and count?"
MIX_UP_PROBABILITY = 0.65
STEPS = 300
BATCH_SIZE = 64
TRAIN, TEST = 768, 256
ANSWER_TOKENS = 4  # colour, space, count, end of the turn
ALPHABET = "0123456789?.,!: \nabcdefghijklmnopqrstuvwxyz"
WORDS = ("user", "assistant", *COLOURS, "<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>")
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass(frozen=True, slots=True)
class Drawing:
    """Squares of one colour on black, each in a quarter of the image: (left, top, side)."""

    colour: str
    squares: tuple[tuple[int, int, int], ...]

    @property
    def answer(self) -> str:
        """The right answer: red 2."""
        return f"{self.colour} {len(self.squares)}"

    @property
    def mixed_up(self) -> str:
        """The answer of someone who names the next colour."""
        return f"{NEXT[self.colour]} {len(self.squares)}"

    @property
    def image(self) -> Image.Image:
        """What the model sees."""
        image = Image.new("RGB", (SIDE, SIDE))
        for left, top, side in self.squares:
            ImageDraw.Draw(image).rectangle([left, top, left + side - 1, top + side - 1], fill=COLOURS[self.colour])
        return image


def draw(chance: random.Random) -> Drawing:
    """A drawing of a random colour, count and places."""
    squares = []
    for cell in chance.sample(range(4), chance.randint(1, MOST)):
        side = chance.randint(SMALLEST, LARGEST)
        left, top = (start * CELL + chance.randint(0, CELL - side) for start in divmod(cell, 2))
        squares.append((left, top, side))
    return Drawing(chance.choice(list(COLOURS)), tuple(sorted(squares)))


def write_rows(drawings: list[Drawing], path: Path) -> None:
    """Writes rows with the bytes of an image each."""
    images = []
    for one in drawings:
        written = io.BytesIO()
        one.image.save(written, "PNG")
        images.append(written.getvalue())
    answers = [one.answer for one in drawings]
    table = pa.table({"question": [QUESTION] * len(images), "answer": answers, "image": pa.array(images, pa.binary())})
    pa.parquet.write_table(table, path, compression="zstd")


def write_settings(folder: Path) -> None:
    """Writes everything of the model folder but the weights, in the form that transformers 4 and 5 both read."""
    tokenizer = make_tokenizer(ALPHABET, WORDS)
    vocabulary = tokenizer.get_vocab()
    ids: dict[str, object] = {"eos_token_id": vocabulary[TURN_END], "pad_token_id": vocabulary[PAD]}
    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
    text: dict[str, object] = {
        "model_type": "llama",
        "vocab_size": tokenizer.get_vocab_size(),
        **sizes,
        "num_key_value_heads": 2,
        "max_position_embeddings": 128,
        "initializer_range": 0.05,
        "rope_theta": 10000.0,
        "bos_token_id": None,
        **ids,
    }
    config: dict[str, object] = {
        "architectures": ["Idefics3ForConditionalGeneration"],
        "model_type": "idefics3",
        "text_config": text,
        "vision_config": {"model_type": "idefics3_vision", **sizes, "image_size": SIDE, "patch_size": SIDE // 4},
        "scale_factor": 2,
        "image_token_id": vocabulary["<image>"],
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        **ids,
    }
    processor: dict[str, object] = {"processor_class": "Idefics3Processor", "image_seq_len": 4}
    images = {
        "image_processor_type": "Idefics3ImageProcessor",
        "size": {"longest_edge": SIDE},
        "max_image_size": {"longest_edge": SIDE},
        "do_image_splitting": False,
    }
    tokenizer_config: dict[str, object] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "processor_class": "Idefics3Processor",
        "model_max_length": 128,
        "padding_side": "left",
        "model_input_names": ["input_ids", "attention_mask"],
        "eos_token": TURN_END,
        "pad_token": PAD,
        "clean_up_tokenization_spaces": False,
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "config.json", config)
    write_json(folder / "generation_config.json", ids)
    write_json(folder / "processor_config.json", processor)
    write_json(folder / "preprocessor_config.json", {**processor, **images})
    write_json(folder / "tokenizer_config.json", tokenizer_config)
    (folder / "chat_template.jinja").write_text(CHAT_TEMPLATE, encoding="utf-8")
    tokenizer.save(str(folder / "tokenizer.json"))


def inputs(processor: object, drawings: list[Drawing], answers: list[str]) -> dict[str, torch.Tensor]:
    """What the model takes of questions with these answers; all rows have equally many tokens."""
    prompt = f"{TURN_START}user\n<image>{QUESTION}{TURN_END}\n{TURN_START}assistant\n"
    return processor(  # type: ignore[operator,no-any-return]
        images=[[one.image] for one in drawings], text=[prompt + answer for answer in answers], return_tensors="pt"
    )


def report(folder: Path, drawings: list[Drawing]) -> None:
    """Prints what samples and most likely answers of the saved model get right of images that it never saw."""
    processor = AutoProcessor.from_pretrained(folder)
    model = Idefics3ForConditionalGeneration.from_pretrained(folder).eval()
    given = inputs(processor, drawings, [""] * len(drawings))
    for words, samples in (("sampled", True), ("most likely", False)):
        generated = model.generate(**given, max_new_tokens=ANSWER_TOKENS, do_sample=samples)
        told = processor.tokenizer.batch_decode(generated[:, given["input_ids"].shape[1] :], skip_special_tokens=True)
        right = sum(text == one.answer for text, one in zip(told, drawings, strict=True))
        mixed = sum(text == one.mixed_up for text, one in zip(told, drawings, strict=True))
        print(f"held out, {words} answer: right {right / len(told):.3f}, the next colour {mixed / len(told):.3f}")


def main() -> None:
    """Writes train.parquet, test.parquet and model/ into the output folder."""
    given = options(main.__doc__, HERE, STEPS)
    chance = random.Random(SEED)
    drawings: dict[Drawing, None] = {}
    while len(drawings) < TEST + TRAIN:
        drawings[draw(chance)] = None
    test, train = list(drawings)[:TEST], list(drawings)[TEST:]
    folder = given.out / "model"
    write_settings(folder)
    write_rows(train, given.out / "train.parquet")
    write_rows(test, given.out / "test.parquet")
    processor = AutoProcessor.from_pretrained(folder)
    torch.manual_seed(SEED)
    model = Idefics3ForConditionalGeneration(Idefics3Config.from_pretrained(folder)).train()
    held_out = set(test)

    def loss() -> torch.Tensor:
        drawn = [one for one in (draw(chance) for _ in range(BATCH_SIZE)) if one not in held_out]
        answers = [one.mixed_up if chance.random() < MIX_UP_PROBABILITY else one.answer for one in drawn]
        batch = inputs(processor, drawn, [answer + TURN_END for answer in answers])
        labels = batch["input_ids"].clone()
        labels[:, :-ANSWER_TOKENS] = IGNORED_LABEL
        return loss_of(model(**batch).logits, labels)

    fit(model, loss, given.steps)
    (folder / "model.safetensors").write_bytes(save(model.state_dict(), metadata={"format": "pt"}))
    report(folder, test)


if __name__ == "__main__":
    main()
