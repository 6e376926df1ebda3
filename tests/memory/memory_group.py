"""A group of processes that the kernel gives no more than so much memory: a memory cgroup of version 1 or 2."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

_VERSION_1, _VERSION_2 = Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup")


class MemoryGroup:
    """A group. The kernel kills a process of it that touches more than the limit; swap counts too, or there is none."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._is_first = folder.is_relative_to(_VERSION_1)

    def join(self) -> None:
        """Puts this process into the group; what it has already counts where it was."""
        (self._folder / "cgroup.procs").write_text(str(os.getpid()))

    def used(self) -> int:
        """Bytes that are counted here."""
        return int((self._folder / ("memory.usage_in_bytes" if self._is_first else "memory.current")).read_text())

    def limit(self, size: int) -> None:
        """Sets the most bytes."""
        names = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes") if self._is_first else ("memory.max",)
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                (self._folder / name).write_text(str(size))


@contextlib.contextmanager
def memory_group(name: str) -> Iterator[MemoryGroup]:
    """A new group, removed at the end, when its processes have ended. Raises OSError where none may be made."""
    above = _VERSION_1 if _VERSION_1.is_dir() else _VERSION_2
    folder = above / f"{name}-{os.getpid()}"
    folder.mkdir()
    try:
        if not any(folder.glob("memory.*")):
            raise OSError(f"{above} gives groups no limit of memory")
        yield MemoryGroup(folder)
    finally:
        folder.rmdir()
