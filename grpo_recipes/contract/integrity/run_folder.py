"""Reads and writes integrity.json, the digests of everything in a run folder before the run began."""

import contextlib
import json
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from grpo_recipes.contract.files.folder_files import read_text, write_whole
from grpo_recipes.contract.host.engines import ENGINES
from grpo_recipes.contract.integrity.digests import Digest, digests_of, sizes_in
from grpo_recipes.contract.integrity.manifest import as_digests, as_json, fault_of
from grpo_recipes.contract.integrity.run_id import INTEGRITY_FILE, RUN_ID, refuse_another_run, run_id, with_run_id
from grpo_recipes.contract.integrity.seal import Damaged, seal_content, unseal

INTEGRITY_FORMAT = 1
PLAN_FILE, RECORD_FILE = "plan.json", "run.json"
_SCRIPTS = tuple(name for kind in ENGINES.values() for name in kind.scripts)
PLANNED = ("recipe.yaml", PLAN_FILE, "accelerate.yaml", "deepspeed.json", "launch.sh", "train.sh", *_SCRIPTS)
NONE_KNOWN: Mapping[str, Digest] = MappingProxyType({})
_PURPOSE, _RECORD = "run folder", "run record"
# Parts of the worker that exist only where digests were written: today's archive, and folders of earlier releases.
_WITH_DIGESTS = ("grpo_recipes.zip", "grpo_recipes/contract/integrity", "grpo_recipes/integrity")


def write_integrity(folder: Path, own_id: str | None, known: Mapping[str, Digest] = NONE_KNOWN) -> None:
    """Writes the digests of a run folder's current content, before its run begins. Raises OSError.

    own_id: new_run_id() for a new run, the folder's existing id when it is rewritten, None if it never had one. known:
    digests of files shared with a different folder, which were just computed there.
    """
    names = [name for name in PLANNED if (folder / name).exists()]
    names += [f"worker/{name}" for name in sizes_in(folder, "worker") if "__pycache__" not in name.split("/")]
    files = dict(sorted({**known, **digests_of(folder, set(names) - known.keys())}.items()))
    own = {} if own_id is None else {RUN_ID: own_id}
    text = seal_content(_PURPOSE, {"integrity": INTEGRITY_FORMAT, **own, "files": as_json(files)})
    write_whole(folder, INTEGRITY_FILE, text)


def new_run_id() -> str:
    """A new, unique run id."""
    return uuid.uuid4().hex


def run_id_to_keep(folder: Path) -> str | None:
    """The id to keep when integrity.json is rewritten, even if a process was killed while rewriting it.

    None for a run that an older grpo-run began, whose record and manifests have none.
    """
    if (folder / INTEGRITY_FILE).exists():
        return run_id(folder)
    if not any((folder / part).exists() for part in (RECORD_FILE, "checkpoints", "final")):
        return new_run_id()
    with contextlib.suppress(Damaged, FileNotFoundError):
        known = read_sealed_record(folder).get(RUN_ID)
        return known if isinstance(known, str) else None
    return None


def read_integrity(folder: Path, of: Sequence[str] | None = None) -> dict[str, Digest] | None:
    """The digests in integrity.json, None if it does not exist. of: only these files. Raises Damaged."""
    try:
        content = unseal(_PURPOSE, read_text(folder, INTEGRITY_FILE))
        if content["integrity"] != INTEGRITY_FORMAT:
            raise Damaged("it has a format that this grpo-run does not read")
        files = content["files"]
        return as_digests({name: files[name] for name in (files if of is None else of) if name in files})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise Damaged(f"it cannot be read ({type(problem).__name__})") from problem


def is_lost(folder: Path) -> bool:
    """Whether a run folder has lost its integrity.json; False for one that an older grpo-run wrote without it.

    A run.json has a seal only if there was one.
    """
    if (folder / INTEGRITY_FILE).exists():
        return False
    if any((folder / "worker" / part).exists() for part in _WITH_DIGESTS):
        return True
    with contextlib.suppress(Damaged, FileNotFoundError):
        return bool(read_sealed_record(folder))
    return False


def plan_fault(folder: Path) -> str | None:
    """Why plan.json differs from what was written, None if it is unchanged or that cannot be determined."""
    try:
        written = read_integrity(folder, [PLAN_FILE])
    except Damaged as problem:
        return f"{INTEGRITY_FILE} next to it, which has its sha256, was changed: {problem}"
    if written is None:
        return None
    if PLAN_FILE not in written:
        return f"{INTEGRITY_FILE} next to it does not name it"
    fault = fault_of(folder, PLAN_FILE, written[PLAN_FILE])
    return None if fault is None else f"it {fault.because}"


def record_text(folder: Path, content: Mapping[str, Any]) -> str:
    """The text of run.json, sealed if the run folder has digests."""
    if (folder / INTEGRITY_FILE).exists():
        return seal_content(_RECORD, with_run_id(folder, content))
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def record_fault(folder: Path) -> str | None:
    """How run.json differs from what grpo-run wrote; None for an unchanged or missing one, or without a digest."""
    try:
        if (folder / INTEGRITY_FILE).exists():
            read_sealed_record(folder)
    except FileNotFoundError:
        return None
    except Damaged as problem:
        return str(problem)
    return None


def read_sealed_record(folder: Path) -> dict[str, Any]:
    """The content of run.json. Raises Damaged, or FileNotFoundError without one."""
    try:
        content = unseal(_RECORD, read_text(folder, RECORD_FILE))
        refuse_another_run(folder, content)
        return content
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as problem:
        raise Damaged(f"it cannot be read ({type(problem).__name__})") from problem
