"""Finds the checkpoints of a run folder and checks them against their manifests."""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from grpo_recipes.contract.files.folder_files import read_text
from grpo_recipes.contract.files.regular_file import files_sha256
from grpo_recipes.contract.integrity.digests import digests_of
from grpo_recipes.contract.integrity.manifest import Manifest, NotWhole, checkpoint_manifest, faults, refuse

_MOST_DIGITS = 18


@dataclass(frozen=True, slots=True)
class JudgedCheckpoint:
    """A folder named like a checkpoint. reason: why it is incomplete, None if it is whole and has a manifest."""

    folder: Path
    manifest: Manifest | None
    reason: str | None


def judge_checkpoints(checkpoints: Path, *, contents: bool = False) -> Iterator[JudgedCheckpoint]:
    """All folders named like checkpoints, highest step first.

    contents: also reads every file and compares its digest; otherwise only names and sizes are compared.
    """
    for checkpoint in sorted(_all(checkpoints), key=step_of, reverse=True):
        try:
            manifest = checkpoint_manifest(checkpoint)
            refuse(faults(checkpoint, manifest.files, contents=contents))
            if contents:
                _refuse_another_latest(checkpoint, manifest)
        except NotWhole as problem:
            yield JudgedCheckpoint(checkpoint, None, str(problem))
        else:
            yield JudgedCheckpoint(checkpoint, manifest, None)


def step_of(checkpoint: Path) -> int:
    """The step of a folder named checkpoint-<step>."""
    return int(checkpoint.name.partition("-")[2])


def _all(checkpoints: Path) -> list[Path]:
    """All folders named like checkpoints, without links, which may lead anywhere."""
    folders = []
    for path in checkpoints.glob("checkpoint-*"):
        digits = path.name.partition("-")[2]
        if digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS and not path.is_symlink():
            folders.append(path)
    return folders


def _refuse_another_latest(checkpoint: Path, manifest: Manifest) -> None:
    """Raises NotWhole if `latest`, which tells DeepSpeed the folder to read, names none in the checkpoint."""
    if "latest" not in manifest.files:
        return
    try:
        name = read_text(checkpoint, "latest").strip()
    except (OSError, ValueError) as problem:
        raise NotWhole(f"latest cannot be read ({type(problem).__name__})") from problem
    if name in ("", ".", "..") or "/" in name or "\0" in name or not (checkpoint / name).is_dir():
        raise NotWhole("latest names no folder of it")


def find_lost_checkpoint(folder: Path, named: object) -> str | None:
    """The checkpoint that run.json names, if neither it nor a later one exists any more."""
    name = Path(named).name if isinstance(named, str) else ""
    if not name.startswith("checkpoint-") or not name[11:].isdecimal():
        return None
    step = int(name[11:])
    return (
        None
        if any(step_of(checkpoint.folder) >= step for checkpoint in judge_checkpoints(folder / "checkpoints"))
        else name
    )


KIND = "pickles of a checkpoint"
# Files that cannot run code when read; zero_to_fp32.py is for people, and nobody reads training_args.bin.
_PLAIN = re.compile(r".*\.(safetensors|json|jsonl|txt|model|jinja|md|py|yaml)|latest|training_args\.bin", re.DOTALL)
# transformers 4.48.3 to 5.23.0, peft and accelerate read these with weights_only; torch before 2.6 not all of them.
_WEIGHTS_ONLY = re.compile(
    r"(optimizer|scheduler|scaler)\.pt|rng_state(_\d+)?\.pth|reference_\d+\.pt"
    r"|(pytorch_model|adapter_model|pytorch_model_fsdp|optimizer)(-\d+-of-\d+|_\d+)?\.bin"
)
_FIRST_WEIGHTS_ONLY = (2, 6)
_FORCED = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"


def unsafe_names(names: Iterable[str]) -> list[str]:
    """The files of a checkpoint that may run code when they are read, sorted.

    Includes every file that is not known to be harmless, such as DeepSpeed's states and FSDP's parts and .metadata.
    """
    weights_only = _reads_weights_only()
    return sorted(
        name for name in names if not _PLAIN.fullmatch(name) and not (weights_only and _WEIGHTS_ONLY.fullmatch(name))
    )


def pickles(checkpoint: Path, manifest: Manifest) -> tuple[list[str], str] | None:
    """The files of a checkpoint that may run code, and one digest of them; None without any.

    Reads those files if the manifest has no digests. Raises OSError.
    """
    names = unsafe_names(manifest.files)
    if not names:
        return None
    known = {name: manifest.files[name] for name in names}
    if any(digest.sha256 is None for digest in known.values()):
        known = digests_of(checkpoint, names)
    return names, files_sha256(((name, str(known[name].sha256)) for name in names), errors="surrogateescape")


def _reads_weights_only() -> bool:
    if os.environ.get(_FORCED, "0").strip().lower() not in ("", "0", "false", "no", "n"):
        return False
    try:
        release = re.match(r"(\d{1,6})\.(\d{1,6})", version("torch"))
    except PackageNotFoundError:
        return False
    return release is not None and (int(release[1]), int(release[2])) >= _FIRST_WEIGHTS_ONLY
