"""What is said of a file of a run that is used: what is known of it, and what helps."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from made_folders import run_folder

from grpo_recipes.contract.integrity.manifest import MANIFEST
from grpo_recipes.contract.integrity.used_run import check_used_folder, check_used_run, find_changed_files, how_to_mend

NOBODY = 65534


@pytest.fixture
def run() -> Iterator[Path]:
    """A run folder below folders that every user may enter, as pytest's own are not."""
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        yield run_folder(Path(place))


@contextmanager
def another_user() -> Iterator[None]:
    """Root may open every file, and is another user meanwhile."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(before)


@pytest.mark.parametrize(
    "name",
    ["integrity.json", "plan.json", "run.json", "final/model.safetensors", "final/config.json", f"final/{MANIFEST}"],
)
def test_a_file_that_this_user_may_not_open_is_not_called_changed(name: str, run: Path) -> None:
    assert check_used_run(run, "final").fault is None
    (run / name).chmod(0)
    with another_user():
        fault = check_used_run(run, "final").fault
        shown = find_changed_files(run)
    assert fault is not None
    assert (fault.words, fault.because) == (
        f"{name} cannot be read",
        "may not be opened by this user: Permission denied",
    )
    assert how_to_mend(fault) == "give this user read permission"
    assert [one.words for one in shown] == ([fault.words] if "/" not in name else [])


def test_a_copied_model_that_is_another_users_is_not_called_changed(run: Path) -> None:
    for name in ("model.safetensors", MANIFEST):
        (run / "final" / name).chmod(0)
        with another_user():
            fault = check_used_folder(run / "final").fault
        assert fault is not None and fault.words == f"{name} cannot be read"
        (run / "final" / name).chmod(0o644)
    assert check_used_folder(run / "final").fault is None


def test_a_file_that_was_added_is_moved_away_and_not_trained_again(run: Path) -> None:
    (run / "final/notes.txt").write_text("mine")
    fault = check_used_run(run, "final").fault
    assert fault is not None
    assert (fault.words, how_to_mend(fault)) == ("final/notes.txt was added", "move it out of the folder")
    assert check_used_folder(run / "final").fault is None
