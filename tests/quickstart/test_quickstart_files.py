"""The quickstart's data and model folder as files: what can be said of them without torch."""

import json
import re
import struct
from math import prod
from pathlib import Path

import jinja2
import pytest

QUICKSTART = Path(__file__).resolve().parents[2] / "recipes" / "quickstart"
MODEL = QUICKSTART / "model"
QUESTION = re.compile(r"([1-9][0-9])\+([1-9][0-9])=")


def rows(file_name: str) -> list[dict[str, str]]:
    """The rows of train.jsonl or test.jsonl."""
    return [json.loads(line) for line in (QUICKSTART / file_name).read_text(encoding="utf-8").splitlines()]


def numbers(row: dict[str, str]) -> tuple[int, int]:
    """The two numbers of a question."""
    match = QUESTION.fullmatch(row["question"])
    assert match is not None, row
    return int(match[1]), int(match[2])


def read_json(file_name: str) -> dict[str, object]:
    """One of the model folder's JSON files."""
    value = json.loads((MODEL / file_name).read_text(encoding="utf-8"))
    assert isinstance(value, dict)
    return value


@pytest.mark.parametrize("file_name", ["train.jsonl", "test.jsonl"])
def test_every_row_is_a_sum_with_its_right_answer(file_name: str) -> None:
    for row in rows(file_name):
        assert row.keys() == {"question", "answer"}
        assert row["answer"] == str(sum(numbers(row)))


def test_train_and_test_are_all_sums_once() -> None:
    pairs = [numbers(row) for file_name in ("train.jsonl", "test.jsonl") for row in rows(file_name)]
    assert sorted(pairs) == [(a, b) for a in range(10, 100) for b in range(10, 100)]


def test_no_held_out_sum_nor_its_mirror_is_trained_on() -> None:
    trained = {frozenset(numbers(row)) for row in rows("train.jsonl")}
    held_out = {frozenset(numbers(row)) for row in rows("test.jsonl")}
    assert not trained & held_out
    assert len(held_out) == int(0.12 * len(trained | held_out))


def test_rows_are_shuffled_so_that_the_first_ones_hold_carries_and_none() -> None:
    carries = [a % 10 + b % 10 >= 10 for a, b in map(numbers, rows("test.jsonl")[:100])]
    assert 30 <= sum(carries) <= 60


def test_the_model_folder_stays_small() -> None:
    assert sum(file.stat().st_size for file in MODEL.iterdir()) < 3_000_000
    assert sorted(file.name for file in MODEL.iterdir()) == [
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]


def test_the_weights_are_float32_and_as_many_as_the_script_says() -> None:
    content = (MODEL / "model.safetensors").read_bytes()
    (header_length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + header_length])
    tensors = [entry for name, entry in header.items() if name != "__metadata__"]
    assert {entry["dtype"] for entry in tensors} == {"F32"}
    assert sum(prod(entry["shape"]) for entry in tensors) == 401_792
    assert "lm_head.weight" not in header


def test_the_models_own_generation_config_names_only_token_ids() -> None:
    token_ids = {token["content"]: token["id"] for token in added_tokens()}
    assert read_json("generation_config.json") == {
        "eos_token_id": token_ids["<|im_end|>"],
        "pad_token_id": token_ids["<|endoftext|>"],
    }


def added_tokens() -> list[dict[str, object]]:
    """The markers and roles of tokenizer.json."""
    tokens = read_json("tokenizer.json")["added_tokens"]
    assert isinstance(tokens, list)
    return tokens


def test_the_chat_template_renders_a_question_to_14_tokens() -> None:
    settings = read_json("tokenizer_config.json")
    messages = [{"role": "user", "content": "17+25="}]
    text = jinja2.Template(str(settings["chat_template"]), keep_trailing_newline=True).render(
        messages=messages, add_generation_prompt=True
    )
    assert text == "<|im_start|>user\n17+25=<|im_end|>\n<|im_start|>assistant\n"
    whole_tokens = "|".join(re.escape(str(token["content"])) for token in added_tokens())
    pieces = re.findall(rf"{whole_tokens}|[\s\S]", text)
    model = read_json("tokenizer.json")["model"]
    assert isinstance(model, dict)
    assert model["merges"] == []
    characters = {piece.replace("\n", "\u010a") for piece in pieces if len(piece) == 1}
    assert characters <= model["vocab"].keys()
    assert len(pieces) == 14


def test_the_tokenizer_pads_on_the_left_and_ends_at_the_end_of_the_turn() -> None:
    settings = read_json("tokenizer_config.json")
    assert settings["padding_side"] == "left"
    assert settings["pad_token"] == "<|endoftext|>"
    assert settings["eos_token"] == "<|im_end|>"
