"""The checkpoints of a run folder, judged by their manifests."""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from grpo_recipes.contract.files.folder_files import read_text
from grpo_recipes.contract.files.regular_file import files_sha256
from grpo_recipes.contract.integrity.digests import digests_of
from grpo_recipes.contract.integrity.manifest import Manifest, NotWhole, faults, refuse, stated
from grpo_recipes.contract.integrity.seal import YOU

_MOST_DIGITS = 18


@dataclass(frozen=True, slots=True)
class JudgedCheckpoint:
    """A folder named as a checkpoint. reason: why it is not whole, None for one that is, which has a manifest."""

    folder: Path
    manifest: Manifest | None
    reason: str | None


def judged_checkpoints(checkpoints: Path, *, contents: bool = False) -> Iterator[JudgedCheckpoint]:
    """All folders named as checkpoints, those of the highest steps first.

    contents: every file is read and its digest compared; else names and sizes alone, which costs no reading.
    """
    for checkpoint in sorted(_all(checkpoints), key=step_of, reverse=True):
        try:
            manifest = stated(checkpoint)
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
    """Links are none: what they name may be anybody's."""
    found = []
    for path in checkpoints.glob("checkpoint-*"):
        digits = path.name.partition("-")[2]
        if digits.isascii() and digits.isdigit() and len(digits) <= _MOST_DIGITS and not path.is_symlink():
            found.append(path)
    return found


def _refuse_another_latest(checkpoint: Path, manifest: Manifest) -> None:
    """Raises NotWhole where `latest`, from which DeepSpeed takes a folder to read, names none in the checkpoint."""
    if "latest" not in manifest.files:
        return
    try:
        name = read_text(checkpoint, "latest").strip()
    except (OSError, ValueError) as problem:
        raise NotWhole(f"latest cannot be read ({type(problem).__name__})") from problem
    if name in ("", ".", "..") or "/" in name or "\0" in name or not (checkpoint / name).is_dir():
        raise NotWhole("latest names no folder of it")


def lost_checkpoint(folder: Path, named: object) -> str | None:
    """The name of the checkpoint that run.json of a run folder names, where neither it nor a later one is there."""
    name = Path(named).name if isinstance(named, str) else ""
    if not name.startswith("checkpoint-") or not name[11:].isdecimal():
        return None
    step = int(name[11:])
    return None if any(step_of(one.folder) >= step for one in judged_checkpoints(folder / "checkpoints")) else name


# Files of a checkpoint that are read with pickle, so that whoever wrote them decides what runs.


KIND = "pickles of a checkpoint"
# Read as what they are, or not at all; zero_to_fp32.py is there for people, and training_args.bin nobody reads.
_PLAIN = re.compile(r".*\.(safetensors|json|jsonl|txt|model|jinja|md|py|yaml)|latest|training_args\.bin", re.DOTALL)
# transformers 4.48.3 to 5.23.0, peft and accelerate read these with weights_only, torch before 2.6 not all of them.
_WEIGHTS_ONLY = re.compile(
    r"(optimizer|scheduler|scaler)\.pt|rng_state(_\d+)?\.pth|reference_\d+\.pt"
    r"|(pytorch_model|adapter_model|pytorch_model_fsdp|optimizer)(-\d+-of-\d+|_\d+)?\.bin"
)
_FIRST_WEIGHTS_ONLY = (2, 6)
_FORCED = "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"


def unsafe_names(names: Iterable[str]) -> list[str]:
    """The files of a checkpoint that may run code when they are read, sorted.

    What is not known to be harmless is one of them: DeepSpeed's states, the parts and .metadata of FSDP.
    """
    weights_only = _reads_weights_only()
    return sorted(
        name for name in names if not _PLAIN.fullmatch(name) and not (weights_only and _WEIGHTS_ONLY.fullmatch(name))
    )


def strange_pickles(checkpoint: Path, manifest: Manifest) -> tuple[list[str], str] | None:
    """The names and one digest of what may run code in a checkpoint that this user did not write; None without any.

    A manifest that knows no digests makes it read those files. Raises OSError.
    """
    if manifest.signer == YOU:
        return None
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
        found = re.match(r"(\d{1,6})\.(\d{1,6})", version("torch"))
    except PackageNotFoundError:
        return False
    return found is not None and (int(found[1]), int(found[2])) >= _FIRST_WEIGHTS_ONLY
