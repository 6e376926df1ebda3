"""Runs without a data set, whose environment makes the rows."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from stage_runs import Command, Run
from support.tool_model import write_tool_model

pytestmark = pytest.mark.stack

GAME = '''
import random

class Sums:
    def reset(self, episode: int, **row: object) -> str:
        draw = random.Random(episode)
        self.calls, self.numbers = [], (draw.randrange(10), draw.randrange(10))
        print("episode", episode, flush=True)
        return "{}+{}=".format(*self.numbers)

    def add(self, a: int, b: int) -> int:
        """Adds two numbers.

        Args:
            a: One.
            b: Another.
        """
        self.calls.append((a, b))
        return a + b

    def get_reward(self) -> float:
        return float(len(self.calls)) + (self.numbers in self.calls)
'''
RECIPE: dict[str, Any] = {
    "recipe": 1,
    "model": {"model_name_or_path": "./model"},
    "environment": {"python": "game.py:Sums"},
    "generation": {"max_completion_length": 32, "max_tool_calling_iterations": 2},
    "grpo": {"num_generations": 4},
    "training": {"prompts_per_step": 2, "save_steps": 2, "learning_rate": 0.003, "lr_scheduler_type": "constant"},
    "evaluation": {"max_rows": 3},
}
ALLOWED = ["--allow-code", hashlib.sha256(GAME.encode()).hexdigest()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("episodes")
    write_tool_model(made / "model")
    (made / "game.py").write_text(GAME)
    return made


@pytest.fixture(scope="module")
def run(command: Command, folder: Path) -> Callable[..., Run]:
    """Trains so many steps."""

    def train(name: str, steps: int, **changes: Any) -> Run:
        training = {**RECIPE["training"], "max_steps": steps, **changes.pop("training", {})}
        (folder / f"{name}.yaml").write_text(json.dumps({**RECIPE, "name": name, "training": training, **changes}))
        done = command(f"{name}.yaml", "--out", name, *ALLOWED, cwd=folder)
        return Run(done.returncode, done.stdout + done.stderr, folder / name)

    return train


@pytest.fixture(scope="module")
def four(run: Callable[..., Run]) -> Run:
    found = run("four", 4)
    assert found.code == 0, found.said
    return found


def episodes(found: Run) -> list[int]:
    """The episodes in the order in which they were first played."""
    lines = [line for line in found.log.splitlines() if line.startswith("episode ")]
    return list(dict.fromkeys(int(line.split()[1]) for line in lines))


def weights(found: Run) -> str:
    return hashlib.sha256((found.folder / "final/model.safetensors").read_bytes()).hexdigest()


def test_the_environment_makes_the_rows(four: Run) -> None:
    held_out = [10**9, 10**9 + 1, 10**9 + 2]
    assert episodes(four) == [*held_out, *range(8)]
    assert four.plan["data"]["made"] == {"episodes": 8, "first": 0}
    record = json.loads((four.folder / "run.json").read_text())
    assert record["verified"]["dataset.rows"] == 8
    card = (four.folder / "final/README.md").read_text()
    made_of = yaml.safe_load(card.split("```yaml\n")[1].split("```")[0])
    assert [made_of[rows]["made"] for rows in ("data", "evaluation_data")] == [
        {"episodes": 8, "first": 0},
        {"episodes": 3, "first": 1_000_000_000},
    ]


def test_a_resumed_run_is_the_one_that_was_not_interrupted(four: Run, command: Command, folder: Path) -> None:
    shutil.copytree(four.folder, folder / "cut")
    cut = Run(0, "", folder / "cut")
    shutil.rmtree(cut.folder / "checkpoints/checkpoint-4")
    shutil.rmtree(cut.folder / "final")
    record = json.loads((cut.folder / "run.json").read_text())
    last = str(cut.folder / "checkpoints/checkpoint-2")
    ended = {"status": "running", "exit_code": None, "final": None, "checkpoint": last}
    (cut.folder / "run.json").write_text(json.dumps({**record, **ended}))
    done = command("cut", "--resume", *ALLOWED, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    assert weights(cut) == weights(four)


def test_a_longer_run_goes_on_with_the_next_episodes(
    four: Run, run: Callable[..., Run], command: Command, folder: Path
) -> None:
    two = run("two", 2)
    assert two.code == 0, two.said
    done = command("two", "--extend", "training.max_steps=4", "--out", "longer", *ALLOWED, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    longer = Run(0, "", folder / "longer")
    assert [number for number in episodes(longer) if number < 10**9] == [4, 5, 6, 7]
    assert weights(longer) == weights(four)


def test_epochs_draw_episodes_by_the_seed(run: Callable[..., Run]) -> None:
    changes = {"dataset": {"max_rows": 4}, "evaluation": None}
    training = {"max_steps": None, "num_train_epochs": 2, "shuffle_dataset": True}
    first = run("seven", 0, **changes, training=training, seed=7)
    assert first.code == 0, first.said
    assert sorted(episodes(first)) == [0, 1, 2, 3]
    assert len(first.figures("reward")) == 4
    second = run("eight", 0, **changes, training={**training, "num_train_epochs": 1}, seed=9)
    assert second.code == 0, second.said
    assert episodes(first) != episodes(second)


def test_a_trial_needs_no_rows_and_answers_can_be_looked_at(four: Run, command: Command, folder: Path) -> None:
    done = command("four.yaml", "--smoke", "--out", "smoke", *ALLOWED, cwd=folder)
    assert (done.returncode, "smoke passed" in done.stdout) == (0, True), done.stdout + done.stderr
    done = command("generate", "four", "--rows", "2", "--json", *ALLOWED, cwd=folder)
    rows = json.loads(done.stdout)["rows"]
    lines = (four.folder / "evaluation/step-0.jsonl").read_text().splitlines()
    assert [row["prompt"] for row in rows] == [json.loads(line)["prompt"] for line in lines[:2]]


def test_held_out_episodes_have_blank_prompts_as_those_of_the_training(
    four: Run, command: Command, folder: Path
) -> None:
    done = command("preflight", "four.yaml", *ALLOWED, cwd=folder)
    assert (done.returncode, "PFL" in done.stdout) == (0, False), done.stdout + done.stderr
