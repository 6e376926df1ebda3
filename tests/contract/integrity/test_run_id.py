"""A sealed file of a run fits no other run, and a run folder stays valid wherever it is."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from made_folders import as_an_older_one_wrote_it, new_run_folder, run_folder

from grpo_recipes.cli.verify import verify_folder
from grpo_recipes.contract.integrity.run_folder import record_fault, record_text, run_id_to_keep, write_integrity
from grpo_recipes.contract.integrity.run_id import run_id


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    """Two runs whose files are the same but for their seals."""
    return new_run_folder(tmp_path / "a"), new_run_folder(tmp_path / "b")


def put(name: str, source: Path, target: Path) -> None:
    if (source / name).is_dir():
        shutil.rmtree(target / name)
        shutil.copytree(source / name, target / name)
    else:
        shutil.copy(source / name, target / name)


@pytest.mark.parametrize("name", ["run.json", "final", "extended_model", "checkpoints/checkpoint-4"])
def test_what_another_run_wrote_is_named(name: str, two: tuple[Path, Path]) -> None:
    first, second = two
    put(name, second, first)
    faults = verify_folder(first).faults
    assert [fault.name for fault in faults] == [name]
    assert faults[0].because.endswith("it belongs to a different run")
    assert (record_fault(first) is not None) == (name == "run.json")


def test_another_runs_integrity_fits_nothing_else(two: tuple[Path, Path]) -> None:
    first, second = two
    put("integrity.json", second, first)
    names = {"run.json", "final", "extended_model", "checkpoints/checkpoint-2", "checkpoints/checkpoint-4"}
    assert {fault.name for fault in verify_folder(first).faults} == names


@pytest.mark.parametrize("move", [shutil.copytree, shutil.move])
def test_a_folder_that_was_copied_or_moved_whole_is_as_it_was(
    move: Callable[[Path, Path], object], tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = run_folder(tmp_path)
    move(folder, tmp_path / "elsewhere" / "team")
    assert verify_folder(tmp_path / "elsewhere" / "team").faults == []
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "the home of somebody else"))
    assert verify_folder(tmp_path / "elsewhere" / "team").faults == []


def test_the_id_stays_where_integrity_is_written_again(tmp_path: Path) -> None:
    folder = run_folder(tmp_path)
    own = run_id(folder)
    assert own is not None
    (folder / "integrity.json").unlink()  # as of a process that was killed in between
    assert run_id_to_keep(folder) == own
    write_integrity(folder, run_id_to_keep(folder))
    assert run_id(folder) == own
    assert verify_folder(folder).faults == []


def test_a_run_of_an_older_grpo_run_gets_no_id(tmp_path: Path) -> None:
    """Its manifests have none, and would be those of another run."""
    folder = run_folder(tmp_path)
    as_an_older_one_wrote_it(folder)
    write_integrity(folder, run_id_to_keep(folder))
    (folder / "run.json").write_text(record_text(folder, {"run": 1}))
    assert run_id(folder) is None
    assert record_fault(folder) is None
    assert [fault.name for fault in verify_folder(folder).faults] == [
        "extended_model/grpo_run.json",
        "final/grpo_run.json",
    ]
