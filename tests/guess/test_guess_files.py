"""The guess recipe's data, game and model folder as files: what can be said of them without torch."""

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import jinja2
import pytest

GUESS = Path(__file__).resolve().parents[2] / "recipes" / "guess"
MODEL = GUESS / "model"
QUESTION = re.compile(r"([1-9][0-9])-([1-9][0-9])")
MOST = 4


def rows(file_name: str) -> list[dict[str, str]]:
    """The rows of train.jsonl or test.jsonl."""
    return [json.loads(line) for line in (GUESS / file_name).read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def played() -> ModuleType:
    """The shipped game."""
    spec = importlib.util.spec_from_file_location("shipped_game", GUESS / "game.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_train_and_test_are_all_games_once() -> None:
    found = sorted((row["question"], row["number"]) for name in ("train.jsonl", "test.jsonl") for row in rows(name))
    assert found == [(f"{low}-{low + 14}", str(number)) for low in range(10, 86) for number in range(low, low + 15)]
    assert len(rows("test.jsonl")) == 136


def test_who_halves_finds_every_number(played: ModuleType) -> None:
    game = played.Game(most=MOST)
    for row in rows("test.jsonl"):
        match = QUESTION.fullmatch(row["question"])
        assert match is not None
        game.reset(**row, prompt=[])
        low, high = int(match[1]), int(match[2])
        while (answer := game.guess((low + high) // 2)) != "right":
            middle = (low + high) // 2
            low, high = (middle + 1, high) if answer == "higher" else (low, middle - 1)
        assert (low + high) // 2 == int(row["number"])
        assert played.score([game]) == [pytest.approx(1.1 - 0.1 * game.guesses)]


def test_a_game_is_over_after_its_guesses_and_begins_anew(played: ModuleType) -> None:
    game = played.Game(most=MOST)
    game.reset(number="20", question="10-24")
    assert [game.guess(number) for number in (10, 11, 24, 19)] == ["higher", "higher", "lower", "higher"]
    with pytest.raises(ValueError, match="the game is over"):
        game.guess(20)
    assert played.score([game]) == [0.0]
    game.reset(number="20")
    assert game.guess(20) == "right"
    with pytest.raises(ValueError, match="the game is over"):
        game.guess(20)
    assert played.score([game]) == [1.0]


def test_the_weights_stay_small() -> None:
    assert sum(file.stat().st_size for file in MODEL.iterdir()) < 2_000_000


def test_the_template_is_the_one_that_the_model_was_trained_with() -> None:
    settings = json.loads((MODEL / "tokenizer_config.json").read_text(encoding="utf-8"))
    call = {"function": {"name": "guess", "arguments": {"number": 17}}}
    messages = [
        {"role": "user", "content": "10-24"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "name": "guess", "content": "higher"},
    ]
    tool = {"function": {"name": "guess", "parameters": {"properties": {"number": {"type": "integer"}}}}}
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = json.dumps
    template = environment.from_string(settings["chat_template"])
    assert template.render(messages=messages, tools=[tool], add_generation_prompt=True) == (
        "<|im_start|>system\n<tools>guess(number)</tools><|im_end|>\n"
        "<|im_start|>user\n10-24<|im_end|>\n"
        '<|im_start|>assistant\n<tool_call>{"name": "guess", "arguments": {"number": 17}}</tool_call>'
        "<|im_end|>\n<|im_start|>tool\nhigher<|im_end|>\n<|im_start|>assistant\n"
    )
