"""Two users with checkouts in different folders have the same experiment, and the same losses with the same world."""

import json
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
CHANGES = ("--set", "training.max_steps=2", "--set", "training.prompts_per_step=4", "--set", "evaluation=null")
TWO = ("--set", "launch.num_processes=2")

pytestmark = pytest.mark.stack


@dataclass(frozen=True, slots=True)
class User:
    """Somebody with a home, a checkout of the recipes and a folder to work in."""

    home: Path
    checkout: Path
    works_in: Path

    def runs(self, grpo_run: Callable[..., Any], *arguments: str) -> Any:
        """A command of this user, in this process."""
        own = {"HOME": str(self.home), "USER": self.home.name, "LOGNAME": self.home.name}
        with pytest.MonkeyPatch.context() as patch:
            for name in [name for name in os.environ if name.startswith(("XDG_", "HF_"))]:
                patch.delenv(name)
            for name, value in {**own, "HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}.items():
                patch.setenv(name, value)
            patch.chdir(self.works_in)
            return grpo_run(*arguments)


def user(place: Path, checkout: str, works_in: str) -> User:
    """A new user whose recipes are copies of the shipped ones."""
    one = User(place, place / checkout, place / works_in)
    one.works_in.mkdir(parents=True, exist_ok=True)
    one.checkout.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "recipes" / "quickstart.yaml", one.checkout)
    shutil.copytree(ROOT / "recipes" / "quickstart", one.checkout / "quickstart")
    return one


def losses(run: Path) -> list[float]:
    """Of each step, as they are written."""
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [event["loss"] for event in events if event.get("event") == "step"]


def test_two_users_train_the_same_with_two_processes(
    tmp_path: Path, warm_python: Path, grpo_run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", str(warm_python / "python"))
    alice = user(tmp_path / "alice", "team/recipes", "team")
    bob = user(tmp_path / "b o b", "somewhere/deep/r", ".")
    runs = {name: tmp_path / "runs" / name for name in ("alice-1", "alice-2", "bob-2")}
    for name, one, world in (("alice-1", alice, ()), ("alice-2", alice, TWO)):
        recipe = str(one.checkout / "quickstart.yaml")
        done = one.runs(grpo_run, recipe, *CHANGES, *world, "--out", str(runs[name]))
        assert done.code == 0, done.err
    # bob gets what alice trained, but neither her folder nor her machine
    shutil.copy(runs["alice-1"] / "plan.json", bob.checkout / "plan.json")
    alice.checkout.rename(tmp_path / "gone")
    done = bob.runs(grpo_run, str(bob.checkout / "plan.json"), *TWO, "--out", str(runs["bob-2"]))
    assert done.code == 0, done.err
    assert "differs (machine)  world" in done.err
    assert "differs (experiment)" not in done.err

    for name, run in list(runs.items())[1:]:
        compared = bob.runs(grpo_run, "diff", str(runs["alice-1"]), str(run))
        assert compared.code == 0, f"{name}: {compared.out}{compared.err}"
    assert len(losses(runs["alice-2"])) == 2
    assert losses(runs["alice-2"]) == losses(runs["bob-2"])
    batches = {}
    for name, run in runs.items():
        passed = json.loads((run / "plan.json").read_text())["arguments"]["GRPOConfig"]
        batches[name] = (passed["per_device_train_batch_size"], passed["gradient_accumulation_steps"])
    assert batches == {"alice-1": (32, 1), "alice-2": (16, 1), "bob-2": (16, 1)}
