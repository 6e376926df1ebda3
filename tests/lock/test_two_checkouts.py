"""Two users with checkouts in different folders have the same experiment, and the same losses with the same world."""

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHANGES = ("--set", "training.max_steps=3", "--set", "evaluation=null")
TWO = ("--set", "launch.num_processes=2")

pytestmark = pytest.mark.stack


@dataclass(frozen=True, slots=True)
class User:
    """Somebody with a home, a checkout of the recipes and a folder to work in."""

    home: Path
    checkout: Path
    works_in: Path
    python: str

    def grpo_run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("XDG_", "HF_"))}
        own = {"HOME": str(self.home), "USER": self.home.name, "LOGNAME": self.home.name, "PYTHONPATH": str(ROOT)}
        offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
        return subprocess.run(
            [self.python, "-m", "grpo_recipes.cli.main", *arguments],
            cwd=self.works_in,
            env=kept | own | offline,
            capture_output=True,
            text=True,
            timeout=600,
        )


def user(place: Path, checkout: str, works_in: str, python: str) -> User:
    """A new user whose recipes are copies of the shipped ones."""
    one = User(place, place / checkout, place / works_in, python)
    one.works_in.mkdir(parents=True, exist_ok=True)
    one.checkout.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "recipes" / "quickstart.yaml", one.checkout)
    shutil.copytree(ROOT / "recipes" / "quickstart", one.checkout / "quickstart")
    return one


def losses(run: Path) -> list[float]:
    """Of each step, as they are written."""
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [event["loss"] for event in events if event.get("event") == "step"]


def test_two_users_train_the_same_with_one_process_and_with_two(tmp_path: Path, warm_python: Path) -> None:
    warm = str(warm_python / "python")
    alice = user(tmp_path / "alice", "team/recipes", "team", warm)
    bob = user(tmp_path / "b o b", "somewhere/deep/r", ".", warm)
    runs = {name: tmp_path / "runs" / name for name in ("alice-1", "bob-1", "alice-2", "bob-2")}
    for name, one, world in (("alice-1", alice, ()), ("bob-1", bob, ()), ("alice-2", alice, TWO)):
        recipe = str(one.checkout / "quickstart.yaml")
        done = one.grpo_run(recipe, *CHANGES, *world, "--out", str(runs[name]))
        assert done.returncode == 0, done.stderr
    # bob gets what alice trained, but neither her folder nor her machine
    shutil.copy(runs["alice-1"] / "plan.json", bob.checkout / "plan.json")
    alice.checkout.rename(tmp_path / "gone")
    done = bob.grpo_run(str(bob.checkout / "plan.json"), *TWO, "--out", str(runs["bob-2"]))
    assert done.returncode == 0, done.stderr
    assert "differs (machine)  world" in done.stderr
    assert "differs (experiment)" not in done.stderr

    for name, run in runs.items():
        compared = bob.grpo_run("diff", str(runs["alice-1"]), str(run))
        assert compared.returncode == 0, f"{name}: {compared.stdout}{compared.stderr}"
    assert len(losses(runs["alice-1"])) == 3
    assert losses(runs["alice-1"]) == losses(runs["bob-1"])
    assert losses(runs["alice-2"]) == losses(runs["bob-2"])
    batches = {}
    for name, run in runs.items():
        passed = json.loads((run / "plan.json").read_text())["arguments"]["GRPOConfig"]
        batches[name] = (passed["per_device_train_batch_size"], passed["gradient_accumulation_steps"])
    assert batches == {"alice-1": (128, 1), "bob-1": (128, 1), "alice-2": (64, 1), "bob-2": (64, 1)}
