"""Mounts file systems of a few KiB that only this process and its children see, and that disappear with it."""

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
    """Returns why nothing can be mounted here, or None, after giving this process its own mounts."""
    if os.geteuid() != 0:
        return "only root can mount"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS) != 0:
        return f"no separate mounts: {os.strerror(ctypes.get_errno())}"
    done = subprocess.run(["mount", "--make-rprivate", "/"], capture_output=True, text=True)
    return done.stderr.strip() or None


def mount(place: Path, kib: int) -> None:
    """Mounts a file system of this many KiB on a folder."""
    place.mkdir(parents=True, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k", "small", str(place)], check=True)


def make_read_only(place: Path) -> None:
    """Makes a file system read-only, as the kernel does with a failing disk, even if files are open for writing."""
    subprocess.run(["mount", "--bind", "-o", "ro", str(place), str(place)], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", str(place)], check=True)


def unmount(place: Path) -> None:
    """Unmounts everything at a path, even while it is in use."""
    while subprocess.run(["umount", "-l", str(place)], capture_output=True).returncode == 0:
        pass


def fill(place: Path, left_kib: int = 0) -> Path:
    """Fills a file system, except for this many KiB, with a file, and returns the file's path."""
    ballast = place / "ballast"
    with ballast.open("ab", buffering=0) as file:
        free = os.statvfs(place)
        with contextlib.suppress(OSError):
            file.write(bytes(max(0, free.f_bavail * free.f_frsize - left_kib * 1024)))
    return ballast


def mount_failing(place: Path, image: Path) -> None:
    """Mounts a disk of 16 MiB that `fail` can break."""
    place.mkdir(parents=True, exist_ok=True)
    with image.open("wb") as file:
        file.truncate(16 << 20)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(place)], check=True)


def fail(place: Path) -> None:
    """Makes a disk return input/output errors from now on, as a broken disk does (ext4, xfs)."""
    folder = os.open(place, os.O_RDONLY)
    try:
        fcntl.ioctl(folder, _SHUTDOWN, struct.pack("I", 1))
    finally:
        os.close(folder)
