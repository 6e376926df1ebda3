"""Whether a run folder whose trained model is used is as the run wrote it; with which file it begins not to be."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from grpo_recipes.contract.files.bounded_json import read_json
from grpo_recipes.contract.files.folder_files import status
from grpo_recipes.contract.integrity.digests import Digest
from grpo_recipes.contract.integrity.manifest import (
    MANIFEST,
    WITHOUT_DIGESTS,
    FileFault,
    NotWhole,
    fault_of,
    faults,
    stated,
    stated_of_model,
)
from grpo_recipes.contract.integrity.run_folder import (
    PLAN_FILE,
    RECORD_FILE,
    is_lost,
    read_integrity,
    record_fault,
)
from grpo_recipes.contract.integrity.run_id import INTEGRITY_FILE, RUN_ID
from grpo_recipes.contract.integrity.seal import Damaged

SMALL_BYTES = 16 * 1024**2
_NOT_AS_WRITTEN = "is not as grpo-run wrote it"
_FOR_PEOPLE = (".md", ".gguf")
HOW_TO_MEND = "bring it back from a copy, or train the run again"


class UsedRun(NamedTuple):
    """fault: the first file that is not as it was written, by its path below the run folder; None for a whole run.

    is_old: whether an older grpo-run wrote what is used, without content hashes, so that not all damage shows.
    """

    fault: FileFault | None
    is_old: bool = False


def used_run(folder: Path, weights: str | None, *, own_model: str | None = None, contents: bool = True) -> UsedRun:
    """Whether plan, record and weights of a run folder are as they were written.

    weights: "final" or "checkpoints/checkpoint-STEP", None for neither. own_model: the model beside which an adapter
    was trained, below the folder. contents: all files are read; else those of no more than SMALL_BYTES, and of the
    others the size. What is for people, and hidden files, may be changed or added: no library reads them.
    """
    fault = next(iter(changed_files(folder)), None)
    is_old = not _is_there(folder, INTEGRITY_FILE)
    for part in (weights, own_model):
        if fault is None and part is not None and _is_there(folder, part):
            fault, is_part_old = _of_a_part(folder, part, contents=contents)
            is_old = is_old or is_part_old
    return UsedRun(fault, is_old)


def changed_files(folder: Path) -> list[FileFault]:
    """Which of integrity.json, plan.json and run.json are not as grpo-run wrote them."""
    if is_lost(folder):
        return [FileFault(INTEGRITY_FILE, "missing", f"is missing, which has the sha256 of {PLAN_FILE}")]
    try:
        written = read_integrity(folder, [PLAN_FILE])
    except Damaged as problem:
        return [FileFault(INTEGRITY_FILE, "changed", f"{_NOT_AS_WRITTEN}: {problem}")]
    plan = [] if written is None else list(_of_the_plan(folder, written.files.get(PLAN_FILE)))
    because = record_fault(folder)
    if because is not None:
        return [*plan, FileFault(RECORD_FILE, "changed", f"{_NOT_AS_WRITTEN}: {because}")]
    began = any(_is_there(folder, part) for part in ("final", "checkpoints"))
    if began and _is_there(folder, INTEGRITY_FILE) and not _is_there(folder, RECORD_FILE):
        return [*plan, FileFault(RECORD_FILE, "missing", "is missing, and a run that began has one")]
    return plan


def _of_the_plan(folder: Path, written: Digest | None) -> Iterator[FileFault]:
    if written is None:
        yield FileFault(PLAN_FILE, "changed", f"is not named by {INTEGRITY_FILE}")
    elif (fault := fault_of(folder, PLAN_FILE, written)) is not None:
        yield replace(fault, because=f"{fault.because}, says {INTEGRITY_FILE} beside it")


def _of_a_part(folder: Path, part: str, *, contents: bool) -> tuple[FileFault | None, bool]:
    place, is_model = folder / part, not part.startswith("checkpoints/")
    manifest = f"{part}/{MANIFEST}"
    if not _is_there(folder, manifest):
        if _is_there(folder, INTEGRITY_FILE):
            return FileFault(manifest, "missing", "is missing, which has the digests of the rest"), False
        return None, True
    if not _is_there(folder, INTEGRITY_FILE) and _has_an_id(folder, manifest):
        return FileFault(INTEGRITY_FILE, "missing", f"is missing, and {manifest} has its id"), False
    try:
        listed: Mapping[str, Digest]
        if is_model:
            listed, is_old = stated_of_model(place)[0], False
        else:
            written = stated(place)
            listed, is_old = written.files, written.format == WITHOUT_DIGESTS
    except NotWhole as problem:
        return FileFault(manifest, "changed", f"{_NOT_AS_WRITTEN}: {problem}"), False
    most = None if contents else SMALL_BYTES
    found = [fault for fault in faults(place, listed, contents=True, most_bytes=most) if not _is_for_people(fault.name)]
    return (FileFault(f"{part}/{found[0].name}", found[0].kind, found[0].because) if found else None), is_old


def _has_an_id(folder: Path, manifest: str) -> bool:
    try:
        content = read_json(folder, manifest)
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and RUN_ID in content


def _is_for_people(name: str) -> bool:
    return name.endswith(_FOR_PEOPLE) or any(part.startswith(".") for part in name.split("/"))


def _is_there(folder: Path, name: str) -> bool:
    try:
        return status(folder, name) is not None
    except OSError:
        return True
