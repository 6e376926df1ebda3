"""What a checkpoint consists of: a small file in it that is written last. Without one it is not whole."""

import json
import os
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

MANIFEST = "grpo_run.json"
MANIFEST_FORMAT = 1
# transformers puts it into a checkpoint that it writes after a signal, and takes it out when that is done.
UNFINISHED = "checkpoint-is-incomplete.txt"
# What another release of would compute with other bits.
_PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate", "deepspeed")


class NotWhole(Exception):
    """A folder that is no whole checkpoint; the text says why."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of the file.

    world_size: processes that wrote it. files: name to size in bytes, of all others. experiment: what defines the run,
    as it was. stack: releases of the packages that trained.
    """

    step: int
    world_size: int
    files: dict[str, int]
    experiment: dict[str, Any]
    stack: dict[str, str]
    checkpoint: int = MANIFEST_FORMAT


def write_manifest(folder: Path, step: int, world_size: int, experiment: dict[str, Any]) -> None:
    """Writes the manifest of all that lies in a folder, with everything in it safe on the disk. Raises OSError."""
    manifest = Manifest(step, world_size, sync_files(folder), experiment, installed())
    file = folder / MANIFEST
    file.write_text(json.dumps(asdict(manifest), indent=1, sort_keys=True) + "\n", encoding="utf-8")
    _sync(file)
    _sync(folder)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a checkpoint that matches it. Raises NotWhole."""
    if (folder / UNFINISHED).exists():
        raise NotWhole(f"{UNFINISHED} lies in it: it was not written to its end")
    try:
        content = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
        found = Manifest(**content)
    except FileNotFoundError:
        raise NotWhole(f"no {MANIFEST} in it: it was not written to its end, or not by this grpo-run") from None
    except (OSError, ValueError, TypeError) as problem:
        raise NotWhole(f"its {MANIFEST} cannot be read ({type(problem).__name__})") from problem
    if found.checkpoint != MANIFEST_FORMAT:
        raise NotWhole(f"its {MANIFEST} has format {found.checkpoint}, this grpo-run reads {MANIFEST_FORMAT}")
    if folder.name != f"checkpoint-{found.step}":
        raise NotWhole(f"its {MANIFEST} is that of step {found.step}")
    for name, size in found.files.items():
        try:
            is_now = (folder / name).stat().st_size
        except OSError:
            raise NotWhole(f"{name} is missing") from None
        if is_now != size:
            raise NotWhole(f"{name} has {is_now} bytes, {size} were written")
    return found


def sync_files(folder: Path) -> dict[str, int]:
    """Waits until all files of a folder are on the disk, with the folders; returns their sizes in bytes by name."""
    sizes = {}
    for where, _, names in os.walk(folder):
        for name in names:
            file = Path(where, name)
            if file != folder / MANIFEST:
                sizes[str(file.relative_to(folder))] = _sync(file)
        _sync(Path(where))
    return dict(sorted(sizes.items()))


def sync_folder(folder: Path) -> None:
    """Waits until the names in a folder are on the disk."""
    _sync(folder)


def installed() -> dict[str, str]:
    """The releases of the packages that train."""
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _sync(path: Path) -> int:
    """Waits until a file or folder is on the disk; the size that it has when it was opened for this.

    Another machine may have written it: a network file system shows its size to whoever opens it, not before.
    """
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
        return os.fstat(number).st_size
    finally:
        os.close(number)
