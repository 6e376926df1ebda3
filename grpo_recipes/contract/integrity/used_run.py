"""Checks that the files of a trained model in use are as the run wrote them, and finds the first that is not."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from grpo_recipes.contract.files.bounded_json import read_mapping
from grpo_recipes.contract.files.folder_files import open_to_read, status
from grpo_recipes.contract.integrity.digests import Digest
from grpo_recipes.contract.integrity.manifest import (
    MANIFEST,
    WITHOUT_DIGESTS,
    FileFault,
    NotWhole,
    checkpoint_manifest,
    fault_of,
    faults,
    model_files,
)
from grpo_recipes.contract.integrity.run_folder import (
    PLAN_FILE,
    RECORD_FILE,
    is_lost,
    read_integrity,
    record_fault,
)
from grpo_recipes.contract.integrity.run_id import INTEGRITY_FILE, RUN_ID, run_id
from grpo_recipes.contract.integrity.seal import Damaged

SMALL_BYTES = 16 * 1024**2
_NOT_AS_WRITTEN = "differs from what grpo-run wrote"
_FOR_PEOPLE = (".md", ".gguf")
# Files of a checkpoint that nothing reads which starts from its weights.
_FOR_A_RESUME = (".pt", ".pth", ".distcp", "training_args.bin", "trainer_state.json", "zero_to_fp32.py", "latest")
_MEND_FOLDER = f"restore it from a copy; remove {MANIFEST} from the folder if the change is yours"
_MEND = "restore it from a copy, or train the run again"


class UsedRun(NamedTuple):
    """The result of a check. fault: the first changed file, by its path below the run folder; None for a whole run.

    is_old: an older grpo-run wrote the files, without content hashes, so some damage goes undetected.
    """

    fault: FileFault | None
    is_old: bool = False


def check_used_run(
    folder: Path, weights: str | None, *, own_model: str | None = None, contents: bool = True
) -> UsedRun:
    """Checks plan, record and weights of a run folder.

    weights: "final" or "checkpoints/checkpoint-STEP", None for neither. own_model: the base model of an adapter, if it
    is in the folder. contents: read all files; otherwise only those of at most SMALL_BYTES, and compare sizes of the
    others. Hidden files and files for people may be changed or added, since no library reads them.
    """
    fault = next(iter(_of_the_run(folder)), None)
    is_old = not _is_there(folder, INTEGRITY_FILE)
    for part in (weights, own_model):
        if fault is None and part is not None and _is_there(folder, part):
            fault, is_part_old = _of_a_part(folder, part, contents=contents)
            is_old = is_old or is_part_old
    return UsedRun(None if fault is None else _as_it_is(folder, fault), is_old)


def check_used_folder(folder: Path, *, contents: bool = True) -> UsedRun:
    """Checks a model or adapter outside of a run folder against its manifest, also a copied checkpoint.

    contents: see check_used_run. Files may be added, and the trainer's own may be missing. Nothing is known about a
    folder without a manifest, which other programs write, nor about links, as in the hub's cache.
    """
    if not _is_there(folder, MANIFEST) or (folder / MANIFEST).is_symlink():
        return UsedRun(None)
    content = read_mapping(folder, MANIFEST) or {}
    try:
        listed, is_old = _manifest_files(folder, is_model="checkpoint" not in content, is_copy=True)
    except NotWhole as problem:
        return UsedRun(_as_it_is(folder, FileFault(MANIFEST, "changed", f"{_NOT_AS_WRITTEN}: {problem}")))
    listed = {name: written for name, written in listed.items() if not name.endswith(_FOR_A_RESUME)}
    changes = [fault for fault in _faults(folder, listed, contents) if fault.kind != "one too many"]
    return UsedRun(_as_it_is(folder, changes[0]) if changes else None, is_old)


def how_to_mend(fault: FileFault, *, is_run: bool = True) -> str:
    """What to do about a changed file. is_run: it is in a run folder rather than in a copied model."""
    if fault.kind == "shut":
        return "give this user read permission"
    if fault.kind == "one too many":
        return "move it out of the folder"
    return _MEND if is_run else _MEND_FOLDER


def find_changed_files(folder: Path) -> list[FileFault]:
    """The changed files among integrity.json, plan.json and run.json, or the sign that they are of a different run."""
    changes = _of_the_run(folder) or list(_of_the_model(folder))
    return [_as_it_is(folder, fault) for fault in changes]


def _as_it_is(folder: Path, fault: FileFault) -> FileFault:
    """The fault, replaced by a different one if this user may not open the file, since it may be unchanged."""
    try:
        open_to_read(folder, fault.name).close()
    except PermissionError as problem:
        return FileFault(fault.name, "shut", f"may not be opened by this user: {problem.strerror}")
    except OSError:
        pass
    return fault


def _of_the_run(folder: Path) -> list[FileFault]:
    if is_lost(folder):
        return [FileFault(INTEGRITY_FILE, "missing", f"is missing, so {PLAN_FILE} cannot be checked")]
    try:
        written = read_integrity(folder, [PLAN_FILE])
    except Damaged as problem:
        return [FileFault(INTEGRITY_FILE, "changed", f"{_NOT_AS_WRITTEN}: {problem}")]
    plan = [] if written is None else list(_of_the_plan(folder, written.get(PLAN_FILE)))
    because = record_fault(folder)
    if because is not None:
        return [*plan, FileFault(RECORD_FILE, "changed", f"{_NOT_AS_WRITTEN}: {because}")]
    began = any(_is_there(folder, part) for part in ("final", "checkpoints"))
    if began and _is_there(folder, INTEGRITY_FILE) and not _is_there(folder, RECORD_FILE):
        return [*plan, FileFault(RECORD_FILE, "missing", "is missing, although the run was started")]
    return plan


def _of_the_plan(folder: Path, written: Digest | None) -> Iterator[FileFault]:
    if written is None:
        yield FileFault(PLAN_FILE, "changed", f"is not named by {INTEGRITY_FILE}")
    elif (fault := fault_of(folder, PLAN_FILE, written)) is not None:
        yield replace(fault, because=f"{fault.because}, says {INTEGRITY_FILE} next to it")


def _of_the_model(folder: Path) -> Iterator[FileFault]:
    """Checks that final/ has the id of the run, without looking at its files."""
    manifest = f"final/{MANIFEST}"
    written = (read_mapping(folder, manifest) or {}).get(RUN_ID)
    if written is not None and not _is_there(folder, INTEGRITY_FILE):
        yield FileFault(INTEGRITY_FILE, "missing", f"is missing, although {manifest} has its id")
    elif written is not None and written != (run_id(folder) or written):
        yield FileFault(manifest, "changed", f"{_NOT_AS_WRITTEN}: it belongs to a different run")


def _of_a_part(folder: Path, part: str, *, contents: bool) -> tuple[FileFault | None, bool]:
    path, is_model = folder / part, not part.startswith("checkpoints/")
    manifest = f"{part}/{MANIFEST}"
    if not _is_there(folder, manifest):
        if _is_there(folder, INTEGRITY_FILE):
            return FileFault(manifest, "missing", "is missing, so the other files cannot be checked"), False
        return None, True
    if not _is_there(folder, INTEGRITY_FILE) and RUN_ID in (read_mapping(folder, manifest) or {}):
        return FileFault(INTEGRITY_FILE, "missing", f"is missing, although {manifest} has its id"), False
    try:
        listed, is_old = _manifest_files(path, is_model=is_model)
    except NotWhole as problem:
        return FileFault(manifest, "changed", f"{_NOT_AS_WRITTEN}: {problem}"), False
    changes = _faults(path, listed, contents)
    return (FileFault(f"{part}/{changes[0].name}", changes[0].kind, changes[0].because) if changes else None), is_old


def _manifest_files(folder: Path, *, is_model: bool, is_copy: bool = False) -> tuple[Mapping[str, Digest], bool]:
    """The files of a manifest, and whether it lacks digests. Raises NotWhole."""
    if is_model:
        return model_files(folder), False
    written = checkpoint_manifest(folder, is_copy=is_copy)
    return written.files, written.format == WITHOUT_DIGESTS


def _faults(folder: Path, listed: Mapping[str, Digest], contents: bool) -> list[FileFault]:
    most = None if contents else SMALL_BYTES
    differences = faults(folder, listed, contents=True, most_bytes=most)
    return [fault for fault in differences if not _is_for_people(fault.name)]


def _is_for_people(name: str) -> bool:
    return name.endswith(_FOR_PEOPLE) or any(part.startswith(".") for part in name.split("/"))


def _is_there(folder: Path, name: str) -> bool:
    try:
        return status(folder, name) is not None
    except OSError:
        return True
