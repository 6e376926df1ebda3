"""The run folder is put in place whole or not at all."""

import dataclasses
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from render_cases import CASES
from support import small_disks
from support.archives import read_module

import grpo_recipes
from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.plan import Plan, Reward, to_json
from grpo_recipes.render.run_folder import archive_modules, write_run_folder

SINGLE = CASES["single_cpu"]


def with_reward(source: Path, *others: Path) -> Plan:
    rewards = tuple(
        Reward(
            "python",
            path.stem,
            f"{path.name}:f",
            1.0,
            {},
            str(path),
            hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for path in (source, *others)
    )
    return dataclasses.replace(SINGLE, rewards=rewards)


def test_a_run_folder_has_all_that_a_run_needs(tmp_path: Path) -> None:
    source = tmp_path / "mine.py"
    source.write_bytes(b"def f(**_):\r\n    return []\n")
    plan = with_reward(source, source)
    folder = Path(write_run_folder(plan, str(tmp_path / "runs" / "one"), "recipe: 1\n"))
    assert folder == tmp_path / "runs" / "one"
    assert (folder / "recipe.yaml").read_text() == "recipe: 1\n"
    assert (folder / "plan.json").read_text() == to_json(plan)
    assert not (folder / "deepspeed.json").exists()
    assert os.access(folder / "launch.sh", os.X_OK)
    assert (folder / "worker" / "user" / "mine.py").read_bytes() == source.read_bytes()
    assert "def exact_match(" in read_module(folder, "grpo_recipes/rewards/exact_match.py")
    assert (folder / "worker" / "train.py").read_text() == read_module(folder, "grpo_recipes/worker/train.py")
    assert not list(folder.rglob("__pycache__"))
    assert [path.name for path in folder.parent.iterdir()] == ["one"]


def test_a_package_in_a_folder_of_any_name_travels_whole(tmp_path: Path) -> None:
    package = Path(grpo_recipes.__file__).parent
    for name in (".pycharm", "__pycache__"):
        copy = tmp_path / name / "grpo_recipes"
        shutil.copytree(package, copy)
        assert archive_modules(copy) == archive_modules(package)


def test_a_run_with_a_server_has_what_starts_it_and_then_the_trainer(tmp_path: Path) -> None:
    folder = Path(write_run_folder(CASES["server_cpu"], str(tmp_path / "run"), ""))
    assert "worker/serve.py" in (folder / "launch.sh").read_text()
    assert "worker/train.py" in (folder / "train.sh").read_text()
    assert (folder / "worker" / "serve.py").exists()
    other = Path(write_run_folder(SINGLE, str(tmp_path / "other"), ""))
    assert not (other / "train.sh").exists() and not (other / "worker" / "serve.py").exists()


@pytest.mark.processes
def test_the_copied_rewards_are_those_that_are_imported(tmp_path: Path) -> None:
    folder = write_run_folder(SINGLE, str(tmp_path / "run"), "")
    program = "import grpo_recipes.rewards.exact_match as m; print(m.__file__)"
    done = subprocess.run(
        [sys.executable, "-S", "-c", program],
        env={"PYTHONPATH": f"{folder}/worker/grpo_recipes.zip"},
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == f"{folder}/worker/grpo_recipes.zip/grpo_recipes/rewards/exact_match.py"


def test_a_deepspeed_run_has_its_deepspeed_file(tmp_path: Path) -> None:
    folder = Path(write_run_folder(CASES["zero2_cpu_2"], str(tmp_path / "run"), ""))
    assert json.loads((folder / "deepspeed.json").read_text())["zero_optimization"]["stage"] == 2


def test_an_empty_folder_may_be_there_already(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    assert write_run_folder(SINGLE, str(tmp_path / "run"), "") == str(tmp_path / "run")


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_a_folder_that_is_taken_stays_as_it_is(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "runs" / "run"
    place.parent.mkdir()
    if kind == "folder":
        place.mkdir()
        (place / "notes").write_text("mine")
    elif kind == "file":
        place.write_text("mine")
    else:
        (tmp_path / "elsewhere").mkdir()
        place.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Refusal, match="the run folder already exists"):
        write_run_folder(SINGLE, str(place), "")
    assert [path.name for path in place.parent.iterdir()] == ["run"]
    if kind == "folder":
        assert [path.name for path in place.iterdir()] == ["notes"]


@pytest.mark.processes
def test_of_two_that_want_one_folder_at_once_one_gets_it(tmp_path: Path) -> None:
    program = (
        "import sys; sys.path[:0] = [sys.argv[1], sys.argv[1] + '/..']\n"
        "from render_cases import CASES\n"
        "from grpo_recipes.contract.exits import Refusal\n"
        "from grpo_recipes.render.run_folder import archive_modules, write_run_folder\n"
        "sys.stdin.read()\n"
        "try: write_run_folder(CASES['single_cpu'], sys.argv[2], sys.argv[3])\n"
        "except Refusal: sys.exit(2)\n"
    )
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(Path(__file__).parent), str(tmp_path / "runs" / "run"), name],
            cwd=Path(__file__).parents[2],
            stdin=subprocess.PIPE,
        )
        for name in ("first", "second", "third")
    ]
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.close()
    assert sorted(racer.wait(timeout=180) for racer in racers) == [0, 2, 2]
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["run"]
    winner = [racer.returncode for racer in racers].index(0)
    assert (tmp_path / "runs" / "run" / "recipe.yaml").read_text() == ("first", "second", "third")[winner]


def test_a_reward_file_that_changed_leaves_nothing_behind(tmp_path: Path) -> None:
    source = tmp_path / "mine.py"
    source.write_text("def f(**_): return []")
    plan = with_reward(source)
    source.write_text("def f(**_): return [1]")
    with pytest.raises(Refusal, match="changed since the plan was made"):
        write_run_folder(plan, str(tmp_path / "runs" / "run"), "")
    assert list((tmp_path / "runs").iterdir()) == []


def test_a_reward_file_that_went_away_is_named(tmp_path: Path) -> None:
    source = tmp_path / "mine.py"
    source.write_text("")
    plan = with_reward(source)
    source.unlink()
    with pytest.raises(Refusal, match=r"mine\.py: the reward file cannot be read"):
        write_run_folder(plan, str(tmp_path / "run"), "")


def test_two_reward_files_of_one_name_are_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "mine.py").write_text(f"{name} = 1")
    with pytest.raises(Refusal, match="another file has the same name"):
        write_run_folder(with_reward(tmp_path / "a" / "mine.py", tmp_path / "b" / "mine.py"), str(tmp_path / "r"), "")


def test_a_place_that_cannot_be_written_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refusal, match="the run folder cannot be written"):
        write_run_folder(SINGLE, str(tmp_path / "file" / "run"), "")


@pytest.mark.parametrize("kib", [4, 40, 400], ids=["its first files", "its worker", "the rest of it"])
def test_a_full_disk_leaves_nothing_of_a_run_folder(kib: int, small_disk: Callable[[int], Path]) -> None:
    disk = small_disk(kib)
    with pytest.raises(Refusal) as refused:
        write_run_folder(SINGLE, str(disk / "runs" / "one"), "recipe: 1\n")
    where, because, fix = str(refused.value).splitlines()
    assert where == f"{disk / 'runs' / 'one'}: the run folder cannot be written"
    assert because.startswith("  = because: ") and because.endswith("No space left on device")
    assert fix == "  = fix: free some space, or use --out with a different folder"
    assert list(disk.rglob("*")) in ([], [disk / "runs"])


def test_a_read_only_place_is_refused_in_one_message(small_disk: Callable[[int], Path]) -> None:
    disk = small_disk(4096)
    small_disks.make_read_only(disk)
    with pytest.raises(Refusal) as refused:
        write_run_folder(SINGLE, str(disk / "run"), "recipe: 1\n")
    assert str(refused.value).splitlines()[1:] == [
        "  = because: Read-only file system",
        "  = fix: make it writable, or use --out with a different folder",
    ]
