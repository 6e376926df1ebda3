"""Writes what a checkpoint or a model consists of, with a digest of each file, when all of it is safe on the disk."""

import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from grpo_recipes.contract.integrity.digests import Digest, digests_of, sizes_in, sync, sync_folders
from grpo_recipes.contract.integrity.manifest import MANIFEST, Manifest, checkpoint_text, model_text

# What another release of would compute with other bits.
_PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate", "deepspeed")
# Of a name like global_step4/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt, rng_state_1.pth or __1_0.distcp.
_OF_A_RANK = re.compile(r"(?:pp_rank_|rng_state_|grpo_run_|reference_|__)(\d{1,9})")


def write_manifest(
    folder: Path,
    step: int,
    world_size: int,
    experiment: dict[str, Any],
    run: Path,
    known: dict[str, Digest] | None = None,
) -> None:
    """Writes the manifest of all that lies in a checkpoint, with everything in it safe on the disk. Raises OSError.

    run: the run folder. known: digests of files that other processes have read; those that are missing or of another
    size are read here.
    """
    files = _digests(folder, known or {})
    _write(folder, checkpoint_text(Manifest(step, world_size, files, experiment, installed()), run))


def write_model_manifest(folder: Path, run: Path | None) -> None:
    """Writes the manifest of a trained or extended model, with everything in it safe on the disk. Raises OSError.

    run: the run folder that it belongs to, None for one that is handed over.
    """
    _write(folder, model_text(_digests(folder, {}), run))


def own_digests(folder: Path, rank: int, world_size: int) -> dict[str, Digest]:
    """The digests of those files of a checkpoint that a process wrote itself, safe on the disk. Raises OSError.

    They are in the memory of its machine, where reading them again costs no disk and no network.
    """
    names = [name for name in sizes_in(folder) if _writer(name, world_size) == rank]
    return digests_of(folder, names, safe_on_disk=True)


def installed() -> dict[str, str]:
    """The releases of the packages that train."""
    found = {}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def _writer(name: str, world_size: int) -> int:
    """The rank that wrote a file, the first one where its name tells no other."""
    found = _OF_A_RANK.search(name.rpartition("/")[2])
    rank = 0 if found is None else int(found[1])
    return rank if rank < world_size else 0


def _digests(folder: Path, known: dict[str, Digest]) -> dict[str, Digest]:
    sizes = {name: size for name, size in sizes_in(folder).items() if name != MANIFEST}
    kept = {name: known[name] for name, size in sizes.items() if name in known and size == known[name].size}
    return kept | digests_of(folder, set(sizes) - set(kept), safe_on_disk=True)


def _write(folder: Path, text: str) -> None:
    file = folder / MANIFEST
    file.write_text(text, encoding="utf-8", newline="\n")
    sync(file)
    sync_folders(folder)
