"""The memory of this machine that a process may take."""

import contextlib
import os
from pathlib import Path

_LIMITS = ("memory.max", "memory/memory.limit_in_bytes")


def machine_memory(groups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int | None:
    """Bytes of RAM, or of the least limit of the control groups that this process is in; None where nobody says.

    Limits of version 2 are of the group and of each above it, of version 1 those that a container shows.
    """
    found = []
    with contextlib.suppress(OSError, ValueError):
        found.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with contextlib.suppress(OSError, ValueError):
        line = next((line for line in own.read_text().splitlines() if line.startswith("0::")), "0::/")
        group = groups / line[3:].strip("/")
        for folder in (group, *group.parents):
            if folder.is_relative_to(groups):
                found += _limit(folder)
    return min((size for size in found if size > 0), default=None)


def _limit(folder: Path) -> list[int]:
    limits = []
    for name in _LIMITS:
        with contextlib.suppress(OSError, ValueError):
            limits.append(int((folder / name).read_text()))
    return limits
