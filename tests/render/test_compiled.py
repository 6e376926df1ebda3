"""A run folder gets bytecode of the package, which Python takes where the copy is as it was written."""

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from render_cases import CASES

import grpo_recipes
from grpo_recipes.render.compiled import copy_compiled
from grpo_recipes.render.run_folder import write_run_folder
from grpo_recipes.render.written_again import write_again

COPY = Path("worker", "grpo_recipes")
MODULE = COPY / "contract" / "exits.py"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    return Path(write_run_folder(CASES["single_cpu"], str(tmp_path / "run"), "recipe: 1\n"))


def compiled(source: Path) -> Path:
    return Path(importlib.util.cache_from_source(str(source)))


def imported(folder: Path, program: str) -> str:
    """What a program prints that has the copy alone, and writes no bytecode itself."""
    done = subprocess.run(
        [sys.executable, "-S", "-v", "-B", "-c", program],
        env={"PYTHONPATH": str(folder / "worker")},
        cwd="/",
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout + done.stderr


@pytest.mark.processes
def test_python_takes_the_bytecode_of_an_unchanged_copy_alone(folder: Path) -> None:
    program = "from grpo_recipes.contract import exits; print(exits.EXIT_DONE, exits.__file__)"
    taken = f"{compiled(folder / MODULE)} matches {folder / MODULE}"
    assert taken not in imported(folder, program)
    copy_compiled(folder)
    said = imported(folder, program)
    assert taken in said
    assert f"0 {folder / MODULE}" in said
    (folder / MODULE).write_text((folder / MODULE).read_text().replace("EXIT_DONE = 0", "EXIT_DONE = 7"))
    assert f"7 {folder / MODULE}" in imported(folder, program)


def test_all_that_a_training_imports_has_its_bytecode(folder: Path) -> None:
    copy_compiled(folder)
    without = {path.relative_to(folder / COPY) for path in (folder / COPY).rglob("*.py") if not compiled(path).exists()}
    others = {Path("worker", room) for room in ("export", "answering", "preflight")}
    assert {path for path in without if not others & set(path.parents)} == {Path("__init__.py")}
    package = Path(grpo_recipes.__file__).parent
    assert compiled(folder / MODULE).read_bytes() == compiled(package / "contract" / "exits.py").read_bytes()


def test_what_lies_in_a_folder_that_was_received_is_written_again(folder: Path) -> None:
    copy_compiled(folder)
    right = compiled(folder / MODULE).read_bytes()
    compiled(folder / MODULE).write_bytes(b"evil")
    write_again(CASES["single_cpu"], str(folder), as_written=CASES["single_cpu"], told=())
    assert not compiled(folder / MODULE).exists()
    copy_compiled(folder)
    assert compiled(folder / MODULE).read_bytes() == right


def test_a_worker_of_another_release_gets_no_rooms(folder: Path) -> None:
    shutil.rmtree(folder / COPY / "worker" / "guards")
    copy_compiled(folder)
    assert not (folder / COPY / "worker" / "guards").exists()


def test_nothing_is_written_through_a_link(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (folder / MODULE).parent.joinpath("__pycache__").symlink_to(tmp_path / "outside")
    shutil.move(folder / COPY / "rewards", tmp_path / "rewards")
    (folder / COPY / "rewards").symlink_to(tmp_path / "rewards")
    copy_compiled(folder)
    assert os.listdir(tmp_path / "outside") == []
    assert not list((tmp_path / "rewards").rglob("__pycache__"))


def test_python_that_shall_write_no_bytecode_writes_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    copy_compiled(folder)
    assert not list(folder.rglob("__pycache__"))
