"""Detects that a run folder was removed, renamed or replaced during its run."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from grpo_recipes.contract.files.folder_files import status
from grpo_recipes.contract.findings.findings_text import Mistake


class FolderGone(Mistake):
    """The run folder is gone, or a different one is in its place."""


class SameFolder:
    """Identifies a run folder by its plan.json, which nothing else writes. Without plan.json, every check passes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known = _mark(folder)

    def check(self) -> None:
        """Raises FolderGone if the folder is gone or belongs to another run. Costs one stat, some microseconds."""
        if self._known is None:
            return
        now = _mark(self.folder)
        # FUSE file systems may renumber their files; a restored copy keeps its old time.
        if now is None or (now[0] != self._known[0] and now[1] != self._known[1]):
            what = "is gone" if now is None else "was replaced"
            raise FolderGone.of(
                f"{self.folder}: the run folder {what}",
                because="it was removed, renamed or replaced during the run",
                fix="start the run again; a renamed folder can be resumed where it is now",
            )


def check_before_saving(trainer: Any, same: SameFolder) -> None:
    """Makes the trainer refuse to save into a missing folder, which transformers would create with only checkpoints.

    Source: transformers' trainer.py, which calls os.makedirs for each place that it writes to.
    """

    @contextmanager
    def with_check() -> Iterator[None]:
        same.check()
        yield

    for event in ("checkpoint is saved", "model is saved"):
        trainer.seams.surround(event, "same folder", with_check)


def _mark(folder: Path) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Returns what identifies a plan.json: its inode, and its time with its size. None without a file.

    Other errors, such as a server that does not respond, are raised unchanged.
    """
    try:
        state = status(folder, "plan.json")
    except NotADirectoryError:
        return None
    return None if state is None else ((state.st_dev, state.st_ino), (state.st_mtime_ns, state.st_size))
