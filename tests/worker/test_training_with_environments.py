"""Real trainings with an environment of the user's, and with a rollout."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.tool_model import write_tool_model
from tool_runs import sha256_of, tool_plan
from worker_runs import Changes, Trained, events

pytestmark = pytest.mark.stack

GAME = '''
import os

class Game:
    """Adds."""

    def __init__(self, most: int) -> None:
        self.most, self.calls, self.asked = most, 0, None

    def reset(self, **row) -> str:
        self.calls, self.asked = 0, row["solution"]
        return "+"

    def add(self, a: int, b: int) -> int:
        """Adds two numbers.

        Args:
            a: One.
            b: Another.
        """
        self.calls += 1
        if self.calls > self.most:
            raise ValueError("enough")
        os.chdir("/")
        return a + b

    def get_reward(self) -> float:
        return float(self.calls)
'''
ROLLOUT = """
def rollout(prompts, trainer):
    tokenized = trainer.processing_class.apply_chat_template(prompts, add_generation_prompt=True, return_dict=True)
    ids = tokenized["input_ids"]
    completions, _ = trainer._generate_single_turn(ids, None, {}, trainer.num_generations)
    told = trainer.processing_class("=7")["input_ids"]
    return {
        "prompt_ids": ids,
        "completion_ids": [own + told for own in completions],
        "logprobs": None,
        "env_mask": [[1] * len(own) + [0] * len(told) for own in completions],
    }
"""


def pinned(name: str, text: str, **more: Any) -> Changes:
    known = {"path": "/recipes/mine.py", "sha256": sha256_of(text), "imports": {}}
    return {"name": name, "target": f"mine.py:{name}", **known, **more}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tool_model(tmp_path_factory.mktemp("models") / "tools")


@pytest.fixture(scope="module")
def game(trained: Callable[..., Trained], model: Path, sums: Path) -> Trained:
    environment = pinned("Game", GAME, config={"most": 1})
    return trained(tool_plan(model, sums, environment_class=environment), user={"mine.py": GAME})


def test_methods_of_an_environment_are_called_and_proved(game: Trained) -> None:
    assert game.exit_code == 0, game.output
    proofs = game.proofs()
    assert [proofs[identity]["ok"] for identity in ("PRF008", "PRF019", "PRF020", "PRF021")] == [True] * 4, proofs
    step = events(game.folder, "step")[0]
    assert step["tools/add/calls"] == step["tools/call_frequency"] * 16 > 8
    assert 0 < step["tools/add/failures"] < step["tools/add/calls"]
    assert "tool add changed the working folder; that was undone" in game.output


def test_an_environment_has_a_reward_of_its_own(game: Trained) -> None:
    step = events(game.folder, "step")[0]
    assert step["rewards/Game/mean"] == pytest.approx(step["tools/add/calls"] / 16)
    assert step["reward"] == pytest.approx(step["rewards/Game/mean"] + step["rewards/even/mean"])


def test_a_rollout_makes_the_completions(trained: Callable[..., Trained], model: Path, sums: Path) -> None:
    plan = tool_plan(model, sums, rollout=pinned("rollout", ROLLOUT))
    run = trained(plan, user={"mine.py": ROLLOUT})
    assert run.exit_code == 0, run.output
    assert all(proof["ok"] is not False for proof in run.proofs().values()), run.proofs()
    assert run.proofs()["PRF008"]["ok"]
    assert {"PRF019", "PRF020", "PRF021"}.isdisjoint(run.proofs())
    rows = (run.folder / "completions.jsonl").read_text()
    assert "\\n[reply] =7" in rows


@pytest.mark.parametrize("key", ["environment_class", "rollout"])
def test_a_file_that_changed_ends_the_run(key: str, trained: Callable[..., Trained], model: Path, sums: Path) -> None:
    more = {"config": {"most": 1}} if key == "environment_class" else {}
    planned = pinned("Game" if more else "rollout", GAME if more else ROLLOUT, **more)
    run = trained(tool_plan(model, sums, **{key: planned}), user={"mine.py": "changed = True\n"})
    assert run.exit_code == 3
    assert "changed since the plan was made" in run.output


def test_a_file_that_raises_ends_the_run_with_its_line(
    trained: Callable[..., Trained], model: Path, sums: Path
) -> None:
    text = "raise RuntimeError('no board')\n"
    planned = {**pinned("Game", text), "config": {"most": 1}}
    run = trained(tool_plan(model, sums, environment_class=planned), user={"mine.py": text})
    assert run.exit_code == 3, run.output
    assert "environment Game: mine.py cannot be loaded: RuntimeError: no board" in run.output
    assert "mine.py:1: raise RuntimeError('no board')" in run.output
    assert "Traceback" not in run.output


MUTE = """
class Mute(Exception):
    def __str__(self) -> str:
        raise TypeError
"""


def test_an_exception_that_cannot_say_its_text_ends_no_training(
    trained: Callable[..., Trained], model: Path, sums: Path
) -> None:
    text = MUTE + GAME.replace('ValueError("enough")', "Mute")
    run = trained(
        tool_plan(model, sums, environment_class=pinned("Game", text, config={"most": 0})), user={"mine.py": text}
    )
    assert run.exit_code == 0, run.output
    assert re.search(r"tool add failed: Mute \(mine\.py:\d+: raise Mute", run.output)
