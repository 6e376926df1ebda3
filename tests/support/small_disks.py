"""File systems of a few KiB, which only this process and its children see, and which are gone with it."""

import contextlib
import ctypes
import fcntl
import functools
import os
import struct
import subprocess
from pathlib import Path

_CLONE_NEWNS = 0x00020000
_SHUTDOWN = 0x8004587D  # FS_IOC_SHUTDOWN


@functools.cache
def why_not() -> str | None:
    """Why nothing can be mounted here, None where it can; this process has mounts of its own then."""
    if os.geteuid() != 0:
        return "only root may mount"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS) != 0:
        return f"no mounts of its own: {os.strerror(ctypes.get_errno())}"
    done = subprocess.run(["mount", "--make-rprivate", "/"], capture_output=True, text=True)
    return done.stderr.strip() or None


def mount(place: Path, kib: int) -> None:
    """Makes a folder a file system of so many KiB."""
    place.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k", "small", str(place)], check=True)


def make_read_only(place: Path) -> None:
    """What a kernel does to a disk that fails; files that are open for writing do not hinder it."""
    subprocess.run(["mount", "--bind", "-o", "ro", str(place), str(place)], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", str(place)], check=True)


def unmount(place: Path) -> None:
    """Takes away all that is mounted there, also while it is in use."""
    while subprocess.run(["umount", "-l", str(place)], capture_output=True).returncode == 0:
        pass


def fill(place: Path, left_kib: int = 0) -> Path:
    """Fills a file system, all but so many KiB, with a file, and returns that."""
    ballast = place / "ballast"
    with ballast.open("ab", buffering=0) as file:
        free = os.statvfs(place)
        with contextlib.suppress(OSError):
            file.write(bytes(max(0, free.f_bavail * free.f_frsize - left_kib * 1024)))
    return ballast


def mount_failing(place: Path, image: Path) -> None:
    """Mounts a disk of 16 MiB that `fail` can make fail."""
    place.mkdir(parents=True, exist_ok=True)
    with image.open("wb") as file:
        file.truncate(16 << 20)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(place)], check=True)


def fail(place: Path) -> None:
    """Lets a disk answer everything with an input/output error from now on, as a broken one does (ext4, xfs)."""
    folder = os.open(place, os.O_RDONLY)
    try:
        fcntl.ioctl(folder, _SHUTDOWN, struct.pack("I", 1))
    finally:
        os.close(folder)
