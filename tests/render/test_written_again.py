"""What a run folder starts is what this package writes, whatever lay there; what was different is kept."""

import dataclasses
import hashlib
import os
import shutil
from pathlib import Path

import pytest
from render_cases import CASES

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.integrity.run_folder import record_text
from grpo_recipes.contract.integrity.run_id import run_id
from grpo_recipes.contract.plan import Plan, Reward
from grpo_recipes.render import rerendered
from grpo_recipes.render.rerendered import write_again
from grpo_recipes.render.run_folder import write_run_folder

pytestmark = pytest.mark.slow

REWARD = "def f(completions, **kwargs):\n    return [0.0 for _ in completions]\n"


def with_reward(plan: Plan, folder: Path) -> Plan:
    (folder / "r.py").write_text(REWARD)
    (folder / "h.py").write_text("X = 1\n")
    sha256 = [hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in ("r.py", "h.py")]
    reward = Reward("python", "f", "r.py:f", 1.0, {}, str(folder / "r.py"), sha256[0], {"h.py": sha256[1]})
    return dataclasses.replace(plan, rewards=(reward,))


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    return with_reward(CASES["single_cpu"], tmp_path)


@pytest.fixture
def folder(plan: Plan, tmp_path: Path) -> Path:
    return Path(write_run_folder(plan, str(tmp_path / "run"), "recipe: 1\n"))


def written(plan: Plan, folder: Path, *told: str) -> list[str]:
    return write_again(plan, str(folder), as_written=plan, changes=told)


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("case", sorted(CASES))
def test_a_folder_as_it_was_written_stays_as_it_is(case: str, tmp_path: Path) -> None:
    plan = with_reward(CASES[case], tmp_path)
    folder = Path(write_run_folder(plan, str(tmp_path / "run"), ""))
    before = tree(folder)
    assert written(plan, folder) == []
    assert tree(folder) == before


CHANGED = (
    *("launch.sh", "accelerate.yaml", "deepspeed.json", "train.sh", "job.sbatch", "worker/train.py", "worker/torch.py"),
    *(
        "worker/grpo_recipes.zip",
        "worker/serve.py",
        "worker/meet.py",
        "worker/sitecustomize.py",
        "worker/user/r.py",
        "worker/user/h.py",
    ),
)


@pytest.mark.parametrize("name", CHANGED)
def test_what_was_changed_or_added_is_written_again_and_kept(
    name: str, folder: Path, plan: Plan, tmp_path: Path
) -> None:
    before = tree(folder)
    (folder / name).write_text("import evil\n")
    (line,) = written(plan, folder)
    (kept,) = folder.glob("replaced-*")
    assert "import evil\n" in [path.read_text() for path in kept.rglob(Path(name).name)]
    assert str(kept) in line
    shutil.rmtree(kept)
    assert tree(folder) == before


@pytest.mark.parametrize("name", ["run.json", "notes.txt", "checkpoints", "worker/user/words.txt", "train.log"])
def test_what_a_run_or_its_user_leaves_stays(name: str, folder: Path, plan: Plan) -> None:
    (folder / name).write_text("mine")
    assert written(plan, folder) == []
    assert (folder / name).read_text() == "mine"


def test_a_script_of_one_s_own_is_said_to_be_started_by_hand(folder: Path, plan: Plan) -> None:
    (folder / "launch.sh").write_text("module load cuda\n")
    assert "start your own script by hand" in written(plan, folder)[0]


def test_another_plan_is_kept_when_there_is_something_to_say(folder: Path, plan: Plan) -> None:
    other = dataclasses.replace(plan, verified={"dataset.rows": 3})
    assert written(other, folder) == []
    (line,) = written(dataclasses.replace(plan, environment={}), folder, "environment.A")
    assert "plan.json (environment.A)" in line
    assert (next(folder.glob("replaced-*")) / "plan.json").exists()


LINKED = (
    "worker",
    "launch.sh",
    "plan.json",
    "worker/grpo_recipes.zip",
    "worker/user",
    "worker/train.py",
    "worker/user/r.py",
)


@pytest.mark.parametrize("name", LINKED)
def test_nothing_is_written_or_removed_through_a_link(name: str, folder: Path, plan: Plan, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (folder / name).rename(outside)
    (folder / name).symlink_to(outside)
    if outside.is_dir():
        (outside / "__pycache__").mkdir()
        (outside / "__pycache__" / "mine.pyc").write_text("mine")
    before = tree(outside) if outside.is_dir() else outside.read_bytes()
    written(plan, folder, "something")
    assert (tree(outside) if outside.is_dir() else outside.read_bytes()) == before
    assert not (folder / name).is_symlink()
    assert os.path.lexists(folder / name)


@pytest.mark.parametrize("name", ["launch.sh", "train.sh", "worker/train.py", "worker/grpo_recipes.zip", "worker"])
@pytest.mark.parametrize("kind", ["pipe", "folder", "file", "loop", "hole"])
def test_whatever_lies_in_a_place_is_put_aside(name: str, kind: str, folder: Path, plan: Plan) -> None:
    path = folder / name
    if path.is_dir():
        shutil.rmtree(path)
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        (path / "a" / "b").mkdir(parents=True)
    elif kind == "loop":
        path.symlink_to(path)
    else:
        path.write_text("x")
        os.truncate(path, 1 if kind == "file" else 1 << 40)
    written(plan, folder)
    assert (folder / "launch.sh").read_text().startswith("#!/usr/bin/env bash")
    assert (folder / "worker" / "train.py").is_file() and not (folder / "train.sh").exists()
    assert (folder / "worker" / "user" / "r.py").read_text() == REWARD


def test_a_reward_file_that_is_another_one_is_refused_and_nothing_is_touched(folder: Path, plan: Plan) -> None:
    reward = dataclasses.replace(plan.rewards[0], path=str(folder / "worker" / "user" / "r.py"))
    (folder / "worker" / "user" / "r.py").write_text("evil")
    (folder / "launch.sh").write_text("mine")
    before = tree(folder)
    with pytest.raises(Refusal, match="changed since the plan was made"):
        written(dataclasses.replace(plan, rewards=(reward,)), folder)
    assert tree(folder) == before


class Killed(BaseException):
    """In place of SIGKILL, which would end the test."""


@pytest.mark.parametrize("count", range(8))
def test_one_that_is_killed_in_between_is_gone_on_with(
    count: int, folder: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "run.json").write_text(record_text(folder, {"status": "interrupted"}))  # which has the id of the run
    before = tree(folder)
    for name in (
        "launch.sh",
        "worker/train.py",
        "worker/grpo_recipes.zip",
        "plan.json",
        "worker/user/r.py",
    ):
        (folder / name).write_text("old")
    left = [count]

    def killing(name: str) -> None:
        real = getattr(os, name)

        def replace(*given: str, **named: int) -> None:
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            real(*given, **named)

        monkeypatch.setattr(rerendered.os, name, replace)

    with monkeypatch.context():
        killing("replace")
        killing("rename")
        monkeypatch.setattr(rerendered.shutil, "rmtree", lambda *_, **__: None)
        with pytest.raises(Killed) if count < 6 else pytest.raises((Killed, AssertionError)):
            written(plan, folder, "x")
            raise AssertionError
    monkeypatch.undo()
    assert (folder / "launch.sh").is_file() and (folder / "plan.json").is_file()
    assert (folder / "worker" / "user" / "r.py").is_file()
    written(plan, folder, "x")
    for kept in folder.glob("replaced-*"):
        shutil.rmtree(kept)
    assert tree(folder) == before


def test_a_folder_that_cannot_be_written_is_refused_in_words(
    folder: Path, plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "launch.sh").write_text("mine")

    def full(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(rerendered.os, "replace", full)
    with pytest.raises(Refusal) as refused:
        written(plan, folder)
    assert "its scripts cannot be rewritten\n  = because: Read-only file system\n  = fix: " in str(refused.value)
    assert (folder / "launch.sh").read_text() == "mine"


def test_the_run_keeps_its_id(plan: Plan, folder: Path) -> None:
    own = run_id(folder)
    assert own is not None
    (folder / "launch.sh").write_text("another\n")
    written(plan, folder)
    assert run_id(folder) == own
    assert run_id(Path(write_run_folder(plan, f"{folder}-2", "recipe: 1\n"))) != own
