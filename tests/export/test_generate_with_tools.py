"""A trained model that calls its tools when it answers, as it does in the training and its evaluations."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from export_runs import RECIPES, Answer, command

pytestmark = pytest.mark.stack

VALUES = {
    "training.max_steps": 2,
    "training.prompts_per_step": 4,
    "training.save_steps": 0,
    "evaluation.max_rows": 8,
}
TOOL = RECIPES / "calculator" / "calculator.py"


GAME = RECIPES / "guess" / "game.py"


def _allowed(file: Path = TOOL) -> list[str]:
    return ["--allow-code", hashlib.sha256(file.read_bytes()).hexdigest()]


def _trained(python: Path, recipe: Path, folder: Path, *allowed: str, **more: object) -> Path:
    values = {key: value for key, value in VALUES.items() if key.partition(".")[0] not in more} | more
    options = [word for key, value in values.items() for word in ("--set", f"{key}={json.dumps(value)}")]
    done = command(python, recipe, "--out", folder, *options, *allowed)
    assert done.code == 0, done.out + done.err
    return folder


@pytest.fixture(scope="module")
def run(warm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _trained(
        warm_python, RECIPES / "calculator.yaml", tmp_path_factory.mktemp("runs") / "calculator", *_allowed()
    )


class Games(NamedTuple):
    """A run with an environment, its program, and what allows its code."""

    run: Path
    program: str
    allowed: list[str]


@pytest.fixture(scope="module", params=["rewarding", pytest.param("as shipped", marks=pytest.mark.long)])
def games(request: pytest.FixtureRequest, warm_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Games:
    """Trains with the environment. rewarding: it also gives a reward, and its reset returns a text."""
    folder = tmp_path_factory.mktemp("runs")
    if request.param == "as shipped":
        run = _trained(warm_python, RECIPES / "guess.yaml", folder / "guess", *_allowed(GAME))
        return Games(run, "game.py", _allowed(GAME))
    own = folder / "own.py"
    reset = "    def reset(self, number: str, **row: Any) -> None:"
    told = """    async def get_reward(self) -> float:
        return float(self.guesses)

"""
    source = GAME.read_text().replace(reset, told + reset.replace("None", "str"))
    source = source.replace("int(number), 0, False\n\n", "int(number), 0, False\n        return ''\n\n")
    assert source.count("get_reward") == source.count("return ''") == 1
    own.write_text(source)
    environment = {"python": f"{own}:Game", "config": {"most": 4}}
    allowed = [*_allowed(GAME), *_allowed(own)]
    run = _trained(warm_python, RECIPES / "guess.yaml", folder / "guess", *allowed, environment=environment)
    return Games(run, "own.py", allowed)


@pytest.fixture
def generate(warm_python: Path, tmp_path: Path) -> Callable[..., Answer]:
    def answered(*words: object) -> Answer:
        return command(warm_python, "generate", *words, XDG_CONFIG_HOME=str(tmp_path))

    return answered


def test_rows_are_answered_as_the_evaluations_were(run: Path, generate: Callable[..., Answer]) -> None:
    done = generate(run, "--rows", 8, "--greedy", "--base", "--json", *_allowed())
    assert done.code == 0, done.out + done.err
    answer = done.json()
    for who, step in (("base", 0), ("trained", 2)):
        lines = (run / "evaluation" / f"step-{step}.jsonl").read_text().splitlines()
        recorded = [json.loads(line) for line in lines]
        for key in ("completion", "rewards"):
            assert [row[who][key] for row in answer["rows"]] == [row[key] for row in recorded], (who, key)


def test_calls_are_answered_and_shown(run: Path, generate: Callable[..., Answer]) -> None:
    done = generate(run, "--rows", 24, "--json", *_allowed())
    assert done.code == 0, done.out + done.err
    called = [row["trained"] for row in done.json()["rows"] if len(row["trained"]["turns"]) > 1]
    assert called, "the model calls in 3 of 10 samples before it was trained"
    for said in called:
        call, reply, answer = said["turns"]
        ((asked,),) = [call["calls"]]
        assert asked["tool"] == reply["tool"] == "calculate"
        assert reply["reply"] == str(eval(asked["arguments"]["expression"]))
        assert answer == {"says": said["completion"], "calls": []}
    text = generate(run, "--rows", 24, *_allowed()).out
    assert re.search(r"\[call\] calculate\(expression='\d\d\*\d\d'\)\n +\[reply\] \d+\n +\d+", text), text


def test_a_prompt_is_answered_with_tools_too(run: Path, generate: Callable[..., Answer]) -> None:
    done = generate(run, "47*38=", "--json", *_allowed())
    assert done.code == 0, done.out + done.err
    (row,) = done.json()["rows"]
    assert row["trained"]["turns"][0].keys() == {"says", "calls"}


def test_a_conversation_calls_tools_and_goes_on_behind_them(run: Path, warm_python: Path, tmp_path: Path) -> None:
    rows = (RECIPES / "calculator" / "test.jsonl").read_text().splitlines()[:12]
    typed = "".join(f"{json.loads(row)['question']}\n19*23=\n/reset\n" for row in rows)
    done = command(warm_python, "chat", run, *_allowed(), typed=typed, XDG_CONFIG_HOME=str(tmp_path))
    assert done.code == 0, done.out + done.err
    assert "tools       calculate" in done.err
    called = re.findall(r"\[call\] calculate\(expression='(\d\d\*\d\d)'\)\n\[reply\] (\d+)\n", done.out)
    assert called, "the model calls in 3 of 10 samples before it was trained"
    assert all(reply == str(eval(asked)) for asked, reply in called)
    assert len(re.findall(r"^\(\d+ tokens, ", done.err, re.MULTILINE)) == 24


def test_tools_are_called_where_they_were_allowed(run: Path, generate: Callable[..., Answer], tmp_path: Path) -> None:
    done = generate(run, "47*38=")
    assert (done.code, done.out) == (2, "")
    assert "calculator.py" in done.err
    assert "--allow-code" in done.err
    copy = shutil.copytree(run, tmp_path / "run")
    (copy / "worker" / "user" / "calculator.py").write_text("def calculate(expression: str) -> str:\n    return '0'\n")
    changed = generate(copy, "47*38=", *_allowed())
    assert changed.code in (2, 3)
    assert changed.out == ""
    assert "calculator.py" in changed.err
    assert os.listdir(tmp_path / "run")


def test_rows_are_played_as_the_evaluations_were(games: Games, generate: Callable[..., Answer]) -> None:
    done = generate(games.run, "--rows", 8, "--greedy", "--base", "--json", *games.allowed)
    assert done.code == 0, done.out + done.err
    answer = done.json()
    assert answer["without"] == []
    for who, step in (("base", 0), ("trained", 2)):
        lines = (games.run / "evaluation" / f"step-{step}.jsonl").read_text().splitlines()
        recorded = [json.loads(line) for line in lines]
        for key in ("completion", "rewards"):
            assert [row[who][key] for row in answer["rows"]] == [row[key] for row in recorded], (who, key)
    replies = [turn["reply"] for row in answer["rows"] for turn in row["base"]["turns"] if "reply" in turn]
    assert {"higher", "right"} <= set(replies)
    assert 0 < answer["means"]["base"]["score"] < 1
    rows = [row["trained"] for row in answer["rows"]]
    assert all(row["reward"] == sum(row["rewards"].values()) for row in rows)
    if games.program == "own.py":
        assert {row["rewards"]["Game"] for row in rows} & {1.0, 2.0, 3.0, 4.0}


def test_a_prompt_has_no_game(games: Games, generate: Callable[..., Answer]) -> None:
    done = generate(games.run, "23-37")
    assert done.code == 0, done.out + done.err
    assert "answered without environment Game, in one turn each" in done.out
    refused = generate(games.run, "--rows", 1)
    assert refused.code == 2
    assert games.program in refused.err


ROLLOUT = """
def play(prompts, trainer):
    ids = trainer.processing_class(prompts)["input_ids"] if isinstance(prompts[0], str) else (
        trainer.processing_class.apply_chat_template(prompts, add_generation_prompt=True, return_dict=True)["input_ids"]
    )
    completions, _ = trainer._generate_single_turn(ids, None, {}, trainer.num_generations)
    return {"prompt_ids": ids, "completion_ids": completions, "logprobs": None}
"""


def test_a_rollout_is_said_not_to_have_played(
    warm_python: Path, generate: Callable[..., Answer], tmp_path: Path
) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(ROLLOUT)
    run = _trained(
        warm_python,
        RECIPES / "quickstart.yaml",
        tmp_path / "run",
        *_allowed(mine),
        rollout={"python": f"{mine}:play"},
        evaluation=None,
    )
    text = generate(run, "17+25=")
    assert text.code == 0, text.out + text.err
    assert "answered without rollout play, in one turn each" in text.out
    assert generate(run, "--rows", 2, "--json").json()["without"] == ["rollout play"]
