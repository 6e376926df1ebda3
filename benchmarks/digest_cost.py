"""What content hashes cost: seconds per GB when a checkpoint is written, and when it is verified.

Writes files of random bytes as a trainer does, and syncs them to the disk; then the same with a digest of each file;
and reads them again as --resume and --verify do. Prints Markdown tables.
"""

import argparse
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from grpo_recipes.contract.integrity.digests import digest_of, digests_of, sizes_in, sync, sync_folders
from grpo_recipes.contract.integrity.manifest import faults
from grpo_recipes.worker.checkpoints.checkpoint import own_digests

CHUNK = 1 << 24


def measured(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds by the clock and of the CPU, in all threads."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def written(folder: Path, files: int, size: int) -> None:
    """Makes the files of a checkpoint; nothing of them is on the disk yet."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    content = os.urandom(CHUNK)
    for number in range(files):
        with (folder / f"part-{number}.safetensors").open("wb") as file:
            for _ in range(size // CHUNK):
                file.write(content)


def synced(folder: Path) -> None:
    """What a checkpoint waits for without digests."""
    for name in sizes_in(folder):
        sync(folder / name)
    sync_folders(folder)


def algorithms(repeats: int) -> list[str]:
    """GB per second of one thread, by digest of the standard library."""
    content = os.urandom(1 << 28)
    lines = ["| digest | GB/s in one thread |", "|---|---|"]
    for name in ("sha256", "sha1", "blake2b", "md5", "blake2s", "sha3_256"):
        seconds = min(measured(lambda name=name: hashlib.new(name, content).digest())[1] for _ in range(repeats))
        lines.append(f"| {name} | {len(content) / 1e9 / seconds:.2f} |")
    return lines


def cost(place: Path, files: int, size: int, repeats: int) -> list[str]:
    """Seconds per GB, the best of some repetitions, each with newly written files."""
    folder, gb = place / "checkpoint", files * (size // CHUNK) * CHUNK / 1e9
    found: dict[str, tuple[float, float]] = {}

    def note(name: str, took: tuple[float, float]) -> None:
        found[name] = min(found.get(name, took), took)

    for _ in range(repeats):
        written(folder, files, size)
        note("writing: to the disk, without digests", measured(lambda: synced(folder)))
        written(folder, files, size)
        note("writing: to the disk, with digests", measured(lambda: own_digests(folder, 0, 1)))
        digests = digests_of(folder, sizes_in(folder))
        note("--resume, --verify: files in memory", measured(partial(faults, folder, digests, contents=True)))
        note("names and sizes alone, as the removal of old ones looks", measured(partial(faults, folder, digests)))
        note("digests in one thread", measured(partial(_one_by_one, folder, list(digests))))
    rows = [f"| {name} | {wall / gb:.3f} | {cpu / gb:.3f} |" for name, (wall, cpu) in found.items()]
    head = f"{files} files of {size / 1e9:.2f} GB, {os.cpu_count()} CPUs, best of {repeats}:"
    return [head, "", "| what | seconds per GB by the clock | CPU seconds per GB |", "|---|---|---|", *rows]


def _one_by_one(folder: Path, names: list[str]) -> None:
    for name in names:
        digest_of(folder, name)


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=4)
    parser.add_argument("--gb", type=float, default=1.0, help="of all files together")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--place", help="folder on the disk to measure; default: the one for temporary files")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.place) as place:
        size = int(given.gb * 1e9 / given.files)
        print("\n".join([*algorithms(given.repeats), "", *cost(Path(place), given.files, size, given.repeats)]))


if __name__ == "__main__":
    main()
