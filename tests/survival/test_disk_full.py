"""A disk that is full while a checkpoint is written: the one before stays whole, and the run goes on from it."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from killed_runs import LIMIT_S, SAVE_STEPS, begun, left
from support import small_disks

pytestmark = pytest.mark.survival
Disk = Callable[[int], Path]
MIB = 1024


def ended(process: "subprocess.Popen[str]", code: int) -> str:
    """All that a run said; it has to end with this code."""
    output, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == code, output
    return output


def kib_of(folder: Path) -> int:
    """What a folder takes on a disk."""
    return sum(path.lstat().st_blocks for path in [folder, *folder.rglob("*")]) // 2


@pytest.mark.parametrize("kind", ["lora", "full", "zero2"])
def test_a_run_that_found_the_disk_full_is_resumed_with_the_weights_of_one_that_did_not(
    kind: str, small_disk: Disk, is_full: bool, left_alone: Callable[[str, int], Path]
) -> None:
    if kind != "lora" and not is_full:
        pytest.skip("one kind of run is enough for a quick look")
    steps = 2 * SAVE_STEPS
    whole = left_alone(kind, steps)
    one = kib_of(whole / "checkpoints" / f"checkpoint-{steps}")
    beside = kib_of(whole) - kib_of(whole / "checkpoints") - kib_of(whole / "final")
    disk = small_disk(64 * MIB)
    small_disks.fill(disk, beside + one * 3 // 2)

    said = ended(begun(kind, steps, disk), 1)

    folder = disk / "run"
    record = json.loads((folder / "run.json").read_text())
    assert (record["status"], record["exit_code"]) == ("failed", 1), said
    assert "cannot be written: no space left on device; " in record["message"], said
    assert f"continues from checkpoint-{SAVE_STEPS}, which is complete" in record["message"]
    assert record["message"].splitlines()[0] in said
    assert "Traceback" not in said
    assert [path.name for path in (folder / "checkpoints").iterdir()] == [f"checkpoint-{SAVE_STEPS}"]
    (disk / "ballast").unlink()
    ended(begun(kind, steps, disk), 0)
    assert left(folder) == left(whole)
