"""What the libraries say when a file cannot be written, in the words of one message."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from support import small_disks

from grpo_recipes.worker._shared.same_folder import FolderGone, SameFolder
from grpo_recipes.worker.survival.folder_faults import explain_fault, make_room

Disk = Callable[[int], Path]


def raised(act: Callable[[], object]) -> Exception:
    with pytest.raises(Exception) as problem:
        act()
    return problem.value


@pytest.mark.parametrize(
    "problem",
    [
        ValueError("no space between words"),
        FileNotFoundError(errno.ENOENT, "No such file or directory", "rows.jsonl"),
        RuntimeError("CUDA out of memory"),
        PermissionError(errno.EACCES, "Permission denied", "/data/cache/models"),
        OSError("Can't load tokenizer for 'qwen'"),
    ],
    ids=repr,
)
def test_other_problems_are_told_as_they_are(problem: Exception, tmp_path: Path) -> None:
    assert explain_fault(problem, SameFolder(tmp_path)) is None


@pytest.mark.parametrize(
    ("number", "words", "fix"),
    [
        (errno.EDQUOT, "disk quota exceeded; ", "remove files, or raise the quota"),
        (errno.EIO, "input/output error", "check the disk with dmesg"),
        (errno.ESTALE, "stale file handle", "mount the disk again"),
        (errno.EACCES, "permission denied", "give this user access to it"),
    ],
    ids=["quota", "broken", "stale", "not allowed"],
)
def test_a_problem_with_a_file_names_it_and_the_way_out(number: int, words: str, fix: str, tmp_path: Path) -> None:
    problem = OSError(number, os.strerror(number), str(tmp_path / "run.json"))
    what, because, way = str(explain_fault(problem, SameFolder(tmp_path))).splitlines()
    assert what.startswith(f"run.json of the run folder cannot be written: {words}")
    assert because == f"  = because: {type(problem).__name__}: {problem}"
    assert way.startswith(f"  = fix: {fix}")
    assert way.endswith("then grpo-run RUNDIR --resume: it starts over, since nothing was saved")


def test_the_cause_of_an_exception_is_found_below_it(tmp_path: Path) -> None:
    def write() -> None:
        try:
            raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "metrics.jsonl"))
        except OSError as problem:
            raise RuntimeError("the callback failed") from problem

    assert str(explain_fault(raised(write), SameFolder(tmp_path))).startswith("metrics.jsonl of the run folder cannot")


def test_a_folder_that_is_gone_is_the_reason_of_whatever_failed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "plan.json").write_text("{}")
    same = SameFolder(folder)
    same.check()
    folder.rename(tmp_path / "elsewhere")
    with pytest.raises(FolderGone):
        same.check()
    assert str(explain_fault(ValueError("whatever"), same)).startswith(f"{folder}: the run folder is gone\n")
    folder.mkdir()
    (folder / "plan.json").write_text("{} ")
    assert str(explain_fault(ValueError("whatever"), same)).startswith(f"{folder}: the run folder was replaced\n")


def test_a_copy_that_was_brought_back_is_the_same_folder(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text("{}")
    same = SameFolder(tmp_path)
    times = (tmp_path / "plan.json").stat()
    (tmp_path / "copy").write_text("{}")
    os.utime(tmp_path / "copy", ns=(times.st_atime_ns, times.st_mtime_ns))
    (tmp_path / "copy").rename(tmp_path / "plan.json")
    same.check()


@pytest.mark.stack
def test_the_libraries_are_understood_on_a_disk_that_is_really_full(small_disk: Disk) -> None:
    """Each tells it in another way: torch without any reason."""
    import torch
    from safetensors.torch import save_file

    disk = small_disk(128)
    tensors = {"weights": torch.zeros(1 << 18)}
    writers: dict[str, Callable[[], object]] = {
        "torch": lambda: torch.save(tensors, disk / "optimizer.pt"),
        "safetensors": lambda: save_file(tensors, disk / "model.safetensors"),
        "python": lambda: (disk / "trainer_state.json").write_text("x" * (1 << 20)),
    }
    for name, write in writers.items():
        ballast = small_disks.fill(disk, left_kib=32)
        problem = raised(write)
        message = str(explain_fault(problem, SameFolder(disk)))
        assert "cannot be written: no space left on device; " in message, (name, repr(problem))
        assert message.splitlines()[1].startswith(f"  = because: {type(problem).__name__}: "), name
        for left in disk.iterdir():
            left.unlink()
        assert not ballast.exists()


def test_room_is_made_of_what_is_half_written_after_a_full_disk_alone(tmp_path: Path) -> None:
    half = tmp_path / "checkpoints" / "writing" / "checkpoint-4"
    half.mkdir(parents=True)
    make_room(tmp_path, ValueError("something else"))
    assert half.exists()
    make_room(tmp_path, OSError(errno.ENOSPC, "No space left on device"))
    assert not half.exists()
