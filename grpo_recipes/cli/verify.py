"""`grpo-run RUNDIR --verify`: checks everything in a run folder that has a digest."""

import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import click

from grpo_recipes.cli.options import RunOptions
from grpo_recipes.contract.exits import EXIT_DIFFERENT, EXIT_DONE, Refusal
from grpo_recipes.contract.findings.wording import one_line
from grpo_recipes.contract.host.engines import ENGINES
from grpo_recipes.contract.integrity.checkpoints import find_lost_checkpoint, judge_checkpoints
from grpo_recipes.contract.integrity.digests import Digest, sizes_in
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
    read_sealed_record,
)
from grpo_recipes.contract.integrity.run_id import INTEGRITY_FILE
from grpo_recipes.contract.integrity.seal import Damaged
from grpo_recipes.contract.secrets.redact import redact

MODELS = ("final", "extended_model", "merged_model", "dequantized_model")
# These grow during the run, or are rewritten when needed.
_TRACES = tuple(name for kind in ENGINES.values() for name in kind.traces if not name.startswith("."))
_GROWING = (
    "metrics.jsonl",
    "completions.jsonl",
    "train.log",
    "cache",
    "completions",
    "evaluation",
    "tensorboard",
    *_TRACES,
)


@dataclass
class Verified:
    """What a check of a run folder found. files, bytes: number read. faults: differences from what was written.

    not_verified: parts that cannot be checked, each with the reason.
    """

    files: int = 0
    bytes: int = 0
    faults: list[FileFault] = field(default_factory=list)
    not_verified: dict[str, str] = field(default_factory=dict)

    def add(self, folder: Path, where: str, files: Mapping[str, Digest], *, is_closed: bool) -> None:
        """Compares the files below a part of the run folder. is_closed: no other entries are allowed."""
        differing = faults(folder / where, files, contents=True) if is_closed else list(_only_named(folder, files))
        prefix = f"{where}/" if where else ""
        self.faults += [FileFault(f"{prefix}{fault.name}", fault.kind, fault.because) for fault in differing]
        self.files += len(files)
        self.bytes += sum(digest.size for digest in files.values())


def verify_folder(folder: Path) -> Verified:
    """Reads a run folder and finds every difference from what was written. Raises OSError."""
    result = Verified()
    _what_was_planned(result, folder)
    _record(result, folder)
    _checkpoints(result, folder)
    for model in MODELS:
        if (folder / model).exists():
            _part(result, folder, model)
    for name in _GROWING:
        if (folder / name).exists():
            result.not_verified[name] = "it grows or is rewritten, so it has no digest"
    result.faults.sort(key=lambda fault: fault.name)
    return result


def _what_was_planned(result: Verified, folder: Path) -> None:
    try:
        written = read_integrity(folder)
    except Damaged as problem:
        result.faults.append(FileFault(INTEGRITY_FILE, "changed", str(problem)))
        return
    if written is None:
        if is_lost(folder):
            result.faults.append(
                FileFault(INTEGRITY_FILE, "missing", "is missing, so the other files cannot be checked")
            )
        else:
            result.not_verified["plan.json and worker/"] = "an older grpo-run wrote no digests of them"
        return
    result.add(folder, "", written, is_closed=False)
    try:
        more = {f"worker/{name}" for name in sizes_in(folder, "worker")} - written.keys()
    except FileNotFoundError:
        return
    except OSError as problem:
        result.faults.append(FileFault("worker", "changed", f"cannot be read: {problem.strerror or problem}"))
        return
    strange = [name for name in more if "__pycache__" not in name.split("/")]
    result.faults += [FileFault(name, "one too many", "was not written with it") for name in strange]


def _record(result: Verified, folder: Path) -> None:
    try:
        record = read_sealed_record(folder)
        result.files += 1
        _what_it_names(result, folder, record)
    except FileNotFoundError:
        if (folder / "checkpoints").exists() or (folder / "final").exists():
            result.faults.append(FileFault(RECORD_FILE, "missing", "is missing, although the run was started"))
    except Damaged as problem:
        if (folder / INTEGRITY_FILE).exists():
            result.faults.append(FileFault(RECORD_FILE, "changed", str(problem)))
        else:
            result.not_verified[RECORD_FILE] = "an older grpo-run wrote no digest of it"


def _what_it_names(result: Verified, folder: Path, record: Mapping[str, object]) -> None:
    """Checks the newest checkpoint and the trained model. A completed run's checkpoints may have been removed."""
    if record.get("final") is not None and not (folder / "final").exists():
        result.faults.append(FileFault("final", "missing", f"is missing, but {RECORD_FILE} names it"))
    lost = find_lost_checkpoint(folder, record.get("checkpoint"))
    if lost is not None and record.get("status") == "completed":
        result.not_verified[f"checkpoints/{lost}"] = f"{RECORD_FILE} names it, but it no longer exists"
    elif lost is not None:
        result.faults.append(FileFault(f"checkpoints/{lost}", "missing", f"is missing, but {RECORD_FILE} names it"))


def _checkpoints(result: Verified, folder: Path) -> None:
    """Checks the checkpoints that --resume would consider; any other entry with such a name is a fault."""
    judged = {each.folder for each in judge_checkpoints(folder / "checkpoints")}
    for checkpoint in sorted(judged):
        _part(result, folder, checkpoint.relative_to(folder).as_posix())
    for path in set((folder / "checkpoints").glob("checkpoint-*")) - judged:
        result.faults.append(FileFault(path.relative_to(folder).as_posix(), "one too many", "is not a checkpoint"))


def _part(result: Verified, folder: Path, where: str) -> None:
    """Compares a checkpoint or a model with its manifest."""
    try:
        if where in MODELS:
            files = model_files(folder / where)
        else:
            manifest = checkpoint_manifest(folder / where)
            files = manifest.files
            if manifest.format == WITHOUT_DIGESTS:
                result.not_verified[where] = "an older grpo-run wrote it: only names and sizes were compared"
    except FileNotFoundError:
        if is_lost(folder) or (folder / INTEGRITY_FILE).exists():
            because = "is missing, so the other files cannot be checked"
            result.faults.append(FileFault(f"{where}/{MANIFEST}", "missing", because))
        else:
            result.not_verified[where] = "an older grpo-run wrote no digests of it"
    except NotWhole as problem:
        result.faults.append(FileFault(where, "changed", str(problem)))
    else:
        result.add(folder, where, files, is_closed=True)


def _only_named(folder: Path, files: Mapping[str, Digest]) -> Iterator[FileFault]:
    for name, written in files.items():
        fault = fault_of(folder, name, written)
        if fault is not None:
            yield fault


VERIFY_FORMAT = 2


def verify(path: str, options: RunOptions) -> int:
    """Prints the result. 0: everything with a digest is unchanged; 1: something changed."""
    if any((options.is_of_a_recipe, options.out, options.resuming, options.extending, options.allowed)):
        raise Refusal.of("--verify only reads a run folder; it only takes --json")
    folder = Path(path)
    if not (folder / PLAN_FILE).is_file() and not (folder / "worker").is_dir():
        raise Refusal.of(
            f"{path} is not a run folder", because=f"it has no {PLAN_FILE}", fix="name the folder of a run"
        )
    began = time.perf_counter()
    result = verify_folder(folder)
    seconds = time.perf_counter() - began
    click.echo(redact(_json(path, result, seconds) if options.as_json else _text(path, result, seconds)))
    return EXIT_DIFFERENT if result.faults else EXIT_DONE


def _text(path: str, result: Verified, seconds: float) -> str:
    lines = [_line(fault) for fault in result.faults]
    lines += [f"not verified: {name}: {because}" for name, because in result.not_verified.items()]
    verdict = f"{len(result.faults)} of its files changed" if result.faults else "unchanged"
    read = f"{result.files} files, {result.bytes / 1e9:.3f} GB in {seconds:.1f} s"
    return "\n".join(one_line(line) for line in [*lines, f"{path}: {verdict} ({read})"])


def _line(fault: FileFault) -> str:
    if fault.kind == "missing":
        return f"{fault.name}: missing{fault.because.removeprefix('is missing')}"
    return f"{fault.name}: {fault.kind}, {'' if fault.kind == 'changed' else 'it '}{fault.because}"


def _json(path: str, result: Verified, seconds: float) -> str:
    content = {
        "verify": VERIFY_FORMAT,
        "folder": path,
        "is_whole": not result.faults,
        "faults": [{"file": fault.name, "kind": fault.kind, "because": fault.because} for fault in result.faults],
        "not_verified": result.not_verified,
        "files": result.files,
        "bytes": result.bytes,
        "seconds": round(seconds, 3),
    }
    return json.dumps(content, indent=2)
