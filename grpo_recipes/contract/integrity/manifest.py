"""Reads and checks the manifest of a checkpoint or model, which is written last: a folder without one is incomplete."""

import stat
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from grpo_recipes.contract.files.bounded_json import parse_json
from grpo_recipes.contract.files.folder_files import read_text, status
from grpo_recipes.contract.integrity.digests import Digest, digest_of, most_threads, sizes_in
from grpo_recipes.contract.integrity.run_id import refuse_another_run, run_id, with_run_id
from grpo_recipes.contract.integrity.seal import Damaged, seal_content, unseal

MANIFEST = "grpo_run.json"
MANIFEST_FORMAT, MODEL_FORMAT = 2, 1
# Has only sizes, and no seal.
WITHOUT_DIGESTS = 1
# transformers adds it to a checkpoint that it writes after a signal, and removes it when done.
UNFINISHED = "checkpoint-is-incomplete.txt"
_CHECKPOINT, _MODEL = "checkpoint", "model"


class NotWhole(Exception):
    """A folder differs from what was written; the text says how."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of a checkpoint's manifest.

    world_size: number of processes that wrote it. files: all others. experiment: the values that defined the run.
    stack: releases of the training packages. format: 1 has no digests.
    """

    step: int
    world_size: int
    files: dict[str, Digest]
    experiment: dict[str, Any]
    stack: dict[str, str]
    format: int = MANIFEST_FORMAT


@dataclass(frozen=True, slots=True)
class FileFault:
    """A file that differs from what was written. kind: "missing", "changed", "one too many", or "shut" to this user."""

    name: str
    kind: str
    because: str

    @property
    def words(self) -> str:
        """A short description of the fault."""
        happened = {"missing": "is missing", "one too many": "was added", "shut": "cannot be read"}.get(
            self.kind, "was changed"
        )
        return f"{self.name} {happened}"

    def __str__(self) -> str:
        return f"{self.words}: it {self.because}"


def checkpoint_text(manifest: Manifest, run: Path) -> str:
    """The sealed text of a checkpoint's manifest. run: the run folder."""
    content = {
        "checkpoint": manifest.format,
        "step": manifest.step,
        "world_size": manifest.world_size,
        "files": as_json(manifest.files),
        "experiment": manifest.experiment,
        "stack": manifest.stack,
    }
    return seal_content(_CHECKPOINT, with_run_id(run, content))


def model_text(files: Mapping[str, Digest], run: Path | None) -> str:
    """The sealed text of the manifest of a trained or extended model. run: the run folder, None outside of one."""
    content = {_MODEL: MODEL_FORMAT, "files": as_json(files)}
    return seal_content(_MODEL, content if run is None else with_run_id(run, content))


def as_json(files: Mapping[str, Digest]) -> dict[str, Any]:
    """The digests in the form of a manifest."""
    return {name: {"bytes": digest.size, "sha256": digest.sha256} for name, digest in sorted(files.items())}


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a checkpoint, after checking the names and sizes of its files. Raises NotWhole."""
    manifest = checkpoint_manifest(folder)
    refuse(faults(folder, manifest.files))
    return manifest


def checkpoint_manifest(folder: Path, *, is_copy: bool = False) -> Manifest:
    """The manifest of a checkpoint in a run folder, without checking its files. Raises NotWhole.

    is_copy: the folder may have any name.
    """
    if (folder / UNFINISHED).exists():
        raise NotWhole(f"{UNFINISHED} is in it, so it is incomplete")
    try:
        text = read_text(folder, MANIFEST)
        content = parse_json(text.encode())
        manifest = _checkpoint(text, content if isinstance(content, dict) else {}, folder.parent.parent)
    except FileNotFoundError:
        raise NotWhole(f"no {MANIFEST} in it: it is incomplete, or not written by this grpo-run") from None
    except Damaged as problem:
        raise NotWhole(f"its {MANIFEST} was changed: {problem}") from problem
    except (OSError, ValueError, TypeError, KeyError) as problem:
        raise NotWhole(f"its {MANIFEST} cannot be read ({type(problem).__name__})") from problem
    if not is_copy and folder.name != f"checkpoint-{manifest.step}":
        raise NotWhole(f"its {MANIFEST} is that of step {manifest.step}")
    return manifest


def model_files(folder: Path) -> dict[str, Digest]:
    """The files in the manifest of a model in a run folder. Raises NotWhole, or FileNotFoundError without one."""
    try:
        content = unseal(_MODEL, read_text(folder, MANIFEST))
        refuse_another_run(folder.parent, content)
        if content[_MODEL] != MODEL_FORMAT:
            raise NotWhole(f"its {MANIFEST} has a format that this grpo-run does not read")
        return as_digests(content["files"])
    except FileNotFoundError:
        raise
    except Damaged as problem:
        raise NotWhole(f"its {MANIFEST} was changed: {problem}") from problem
    except (OSError, ValueError, TypeError, KeyError) as problem:
        raise NotWhole(f"its {MANIFEST} cannot be read ({type(problem).__name__})") from problem


def faults(
    folder: Path, files: Mapping[str, Digest], *, contents: bool = False, most_bytes: int | None = None
) -> list[FileFault]:
    """The differences between a folder and its manifest in names and sizes, with `contents` also in digests.

    most_bytes: larger files are compared by size only; None for no limit.
    """
    try:
        there = sizes_in(folder)
    except OSError as problem:
        return [FileFault(".", "changed", f"cannot be read: {problem.strerror or problem}")]
    more = set(there) - set(files) - {MANIFEST}
    by_name = {name: FileFault(name, "one too many", "was not written with it") for name in more}

    def is_read(written: Digest) -> bool:
        return contents and (most_bytes is None or written.size <= most_bytes)

    with ThreadPoolExecutor(most_threads(len(files))) as pool:
        judged = pool.map(lambda name: _fault(folder, name, files[name], there, is_read(files[name])), files)
        by_name |= {fault.name: fault for fault in judged if fault is not None}
    return sorted(by_name.values(), key=lambda fault: fault.name)


def fault_of(folder: Path, name: str, written: Digest) -> FileFault | None:
    """The fault of a single file of a manifest, None if it is unchanged."""
    try:
        entry = status(folder, name)
    except OSError as problem:
        return FileFault(name, "changed", f"cannot be read: {problem.strerror or problem}")
    sizes = {} if entry is None else {name: entry.st_size if stat.S_ISREG(entry.st_mode) else None}
    return _fault(folder, name, written, sizes, is_read=True)


def _fault(
    folder: Path, name: str, written: Digest, there: Mapping[str, int | None], is_read: bool
) -> FileFault | None:
    """The fault of a file. there: sizes in the folder, None for irregular files. is_read: compare the digest."""
    if name not in there:
        return FileFault(name, "missing", "is missing")
    size = there[name]
    if size is None:
        return FileFault(name, "changed", "is not a regular file")
    if size != written.size:
        return FileFault(name, "changed", f"has {size} bytes, {written.size} were written")
    if not is_read or written.sha256 is None:
        return None
    try:
        digest = str(digest_of(folder, name).sha256)
    except OSError as problem:
        return FileFault(name, "changed", f"cannot be read: {problem.strerror or problem}")
    if digest == written.sha256:
        return None
    return FileFault(name, "changed", f"has the sha256 {digest[:12]}, {written.sha256[:12]} was written")


def refuse(faults: list[FileFault]) -> None:
    """Raises NotWhole for the first fault, with the number of others."""
    if faults:
        more = f", and {len(faults) - 1} more of its files differ from what was written" if len(faults) > 1 else ""
        raise NotWhole(f"{faults[0].name} {faults[0].because}{more}")


def as_digests(content: Any) -> dict[str, Digest]:
    """The files of a manifest of any format. Raises ValueError, TypeError or KeyError for anything else."""
    if not isinstance(content, dict):
        raise TypeError("no mapping of files")
    digests = {}
    for name, written in content.items():
        size, sha256 = (written["bytes"], written["sha256"]) if isinstance(written, dict) else (written, None)
        inside = PurePosixPath(name)
        if inside.is_absolute() or ".." in inside.parts or inside.as_posix() != name or "\0" in name:
            raise ValueError("a name that leads elsewhere")
        if not _is_count(size) or not (sha256 is None or isinstance(sha256, str)):
            raise ValueError("no size or no digest")
        digests[name] = Digest(size, sha256)
    return digests


def _checkpoint(text: str, content: dict[str, Any], run: Path) -> Manifest:
    version = content["checkpoint"]
    if version == WITHOUT_DIGESTS:
        if run_id(run) is not None:
            raise NotWhole(f"its {MANIFEST} has no content hashes, but its run writes them")
    elif version == MANIFEST_FORMAT:
        content = unseal(_CHECKPOINT, text)
        refuse_another_run(run, content)
    else:
        raise NotWhole(f"its {MANIFEST} has format {version}, this grpo-run reads {MANIFEST_FORMAT}")
    step, world_size, experiment, stack = (content[key] for key in ("step", "world_size", "experiment", "stack"))
    if not (_is_count(step) and _is_count(world_size) and isinstance(experiment, dict) and isinstance(stack, dict)):
        raise TypeError("an entry of another kind")
    releases = {str(name): str(release) for name, release in stack.items()}
    return Manifest(step, world_size, as_digests(content["files"]), experiment, releases, version)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
