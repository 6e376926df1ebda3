"""A run folder that was removed, renamed or replaced while its run goes on."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

from grpo_recipes.contract.files.folder_files import status
from grpo_recipes.contract.findings.findings_text import Mistake


class FolderGone(Mistake):
    """There is no such run folder any more, or another one lies in its place."""


class SameFolder:
    """Knows a run folder again by its plan.json, which nobody else writes; without one it is always the same."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._known = _mark(folder)

    def check(self) -> None:
        """Raises FolderGone where the folder is gone, or another run's. One stat, some microseconds."""
        if self._known is None:
            return
        now = _mark(self.folder)
        # A file system in user space may number its files anew; a copy that was brought back has the old time.
        if now is None or (now[0] != self._known[0] and now[1] != self._known[1]):
            what = "is gone" if now is None else "is another one now"
            raise FolderGone.of(
                f"{self.folder}: the run folder {what}",
                because="it was removed, renamed or replaced while the run was going on",
                fix="start the run again; a renamed folder can be resumed where it is now",
            )


def check_before_saving(trainer: Any, same: SameFolder) -> None:
    """Lets a trainer save nothing into a folder that is gone: transformers would make it anew, with checkpoints alone.

    Source: transformers 5.23.0 trainer.py, which calls os.makedirs for each place that it writes to.
    """

    def checked(save: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(save)
        def checked_save(*given: Any, **named: Any) -> Any:
            same.check()
            return save(*given, **named)

        return checked_save

    trainer._save_checkpoint = checked(trainer._save_checkpoint)
    trainer.save_model = checked(trainer.save_model)


def _mark(folder: Path) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """What tells a plan.json from another: its place on the disk, and its time with its size. None without one.

    An error that says nothing about the file, of a server that does not answer, is raised as it is.
    """
    try:
        found = status(folder, "plan.json")
    except NotADirectoryError:
        return None
    return None if found is None else ((found.st_dev, found.st_ino), (found.st_mtime_ns, found.st_size))
