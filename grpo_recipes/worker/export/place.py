"""The folder that an export is written in: beside its place, and there when it is whole, or not at all."""

import contextlib
import fcntl
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

from grpo_recipes.contract.files.folder_files import remove_tree
from grpo_recipes.contract.integrity.digests import sync
from grpo_recipes.worker._shared.refused import Refused

_WRITING = "exporting"


class NoFolderThere(OSError):
    """No folder can be made where the export was to be: a file is in the way, or its place takes none."""


@contextlib.contextmanager
def written_beside(place: Path) -> Iterator[Path]:
    """A new folder that has the name of the place when the block ends well, and is gone when it does not.

    What exports that were killed left there is removed; that of one which is still at it is locked, and stays.
    Raises Refused where something is at the place already, NoFolderThere, OSError.
    """
    refuse_taken(place)
    writing = place.with_name(f".{place.name}.{_WRITING}-{uuid.uuid4().hex[:12]}")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        _remove_left(place)
        writing.mkdir()
    except (FileExistsError, FileNotFoundError, NotADirectoryError) as problem:
        raise NoFolderThere(problem.errno, problem.strerror, str(place.parent)) from problem
    lock = os.open(writing, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield writing
        refuse_taken(place)
        os.rename(writing, place)
        sync(place.parent)
    finally:
        if writing.exists():
            remove_tree(writing.parent, writing.name)
        os.close(lock)


def refuse_taken(place: Path) -> None:
    """Raises Refused for a place that is not free: an empty folder is."""
    if place.is_symlink() or (place.exists() and (not place.is_dir() or any(place.iterdir()))):
        raise Refused.of(
            f"{place} already exists",
            because="export never overwrites anything",
            fix="-o with a folder that does not exist",
        )


def _remove_left(place: Path) -> None:
    for left in place.parent.glob(f".{place.name}.{_WRITING}-*"):
        with contextlib.suppress(OSError):
            number = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(left.parent, left.name)
            finally:
                os.close(number)
