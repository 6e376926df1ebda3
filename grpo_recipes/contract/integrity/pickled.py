"""Files of a checkpoint that are read with pickle, so that whoever wrote them decides what runs."""

import os
import re
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from grpo_recipes.contract.files.digest import files_sha256
from grpo_recipes.contract.integrity.digests import digests_of
from grpo_recipes.contract.integrity.manifest import Manifest
from grpo_recipes.contract.integrity.seal import YOU

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
