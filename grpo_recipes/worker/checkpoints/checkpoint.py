"""Writes checkpoints and models atomically: they are complete or do not exist.

A checkpoint is written next to its final place, gets a manifest when all ranks have written, and is then renamed.
Anything replaced or removed is renamed away first. A folder named checkpoint-<step> is therefore complete whenever the
machine stops.
"""

import contextlib
import re
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from grpo_recipes.contract.files.folder_files import open_to_read, remove_tree, rename, status, write_whole
from grpo_recipes.contract.integrity.allowed import CODE, replace_entries, with_digests
from grpo_recipes.contract.integrity.checkpoints import judge_checkpoints, pickles, step_of
from grpo_recipes.contract.integrity.digests import Digest, digests_of, sizes_in, sync, sync_folders
from grpo_recipes.contract.integrity.manifest import (
    MANIFEST,
    Manifest,
    NotWhole,
    checkpoint_text,
    fault_of,
    model_text,
    read_manifest,
    refuse,
)
from grpo_recipes.worker._shared.replacing import Refused

WRITING = "writing"
_REMOVED = ".removed-"


def latest_checkpoint(checkpoints: Path) -> Path | None:
    """Returns the checkpoint of the highest step whose files have the right names and sizes, or None."""
    return next((judged.folder for judged in judge_checkpoints(checkpoints) if judged.reason is None), None)


def save_whole_checkpoints(
    trainer: Any, experiment: dict[str, Any], add: Callable[[Path], None], kept_step: Callable[[], int | None]
) -> None:
    """Makes the trainer write each checkpoint next to its place, and renames it when all ranks have written.

    experiment: what defines the run, for the manifest. add: writes more files into the folder, called on all ranks.
    kept_step: the step of a checkpoint that save_total_limit must not remove.
    Source: transformers' trainer.py `_save_checkpoint`, which writes in place and then removes old checkpoints.
    """
    checkpoints = Path(trainer.args.output_dir)

    def save(write: Callable[..., None], model: Any, trial: Any) -> None:
        writing = checkpoints / WRITING
        name = f"checkpoint-{trainer.state.global_step}"
        trainer.args.output_dir = str(writing)
        try:
            write(model, trial)
        finally:
            trainer.args.output_dir = str(checkpoints)
        add(writing / name)
        trainer.accelerator.wait_for_everyone()
        digests = _digests_of_all_ranks(trainer, writing / name)
        if trainer.is_world_process_zero():
            world_size = trainer.accelerator.num_processes
            step = trainer.state.global_step
            write_manifest(writing / name, step, world_size, experiment, checkpoints.parent, digests)
            put_in_place(writing / name, checkpoints / name)
            _remove(writing)
            remove_old(checkpoints, trainer.args.save_total_limit, kept_step())
        trainer.accelerator.wait_for_everyone()

    trainer.seams.change("checkpoint is saved", "whole checkpoints", save)


def remove_old(checkpoints: Path, limit: int | None, kept_step: int | None = None) -> None:
    """Removes all but the `limit` complete checkpoints of the highest steps. None or a limit below 1 keeps all.

    kept_step: the step of a checkpoint to keep as well.
    """
    if limit is None or limit <= 0:
        return
    whole = [judged.folder for judged in judge_checkpoints(checkpoints) if judged.reason is None]
    for checkpoint in (old for old in whole[limit:] if step_of(old) != kept_step):
        with contextlib.suppress(OSError):
            remove_tree(checkpoints, _rename_away(checkpoint).name)


def put_in_place(written: Path, folder: Path) -> None:
    """Renames a written folder to its final place, replacing one from an earlier attempt."""
    old = _rename_away(folder) if status(folder.parent, folder.name) is not None else None
    rename(folder.parent, str(written.relative_to(folder.parent)), folder.name)
    sync(folder.parent)
    if old is not None:
        _remove(old)


def save_final(trainer: Any, folder: Path, hand_over: Callable[[Path], None], checkpoint: Path | None = None) -> None:
    """Writes the trained model or adapter, with its tokenizer, to `folder`. All ranks must call it.

    hand_over: adds to the written folder, on the first rank, before it is renamed. checkpoint: take the model from
    here, None for the trainer's own. Raises Refused if the checkpoint's files have changed.
    """
    writing = _writing(folder)
    trainer.save_model(str(writing))
    trainer.accelerator.wait_for_everyone()
    if trainer.is_world_process_zero():
        if checkpoint is not None:
            take_model(checkpoint, writing)
        hand_over(writing)
        write_model_manifest(writing, folder.parent)
        put_in_place(writing, folder)
    trainer.accelerator.wait_for_everyone()


def remove_leftovers(folder: Path) -> None:
    """Removes half-written and half-removed files that a killed process left in a run folder."""
    checkpoints, final = folder / "checkpoints", folder / "final"
    for left in (
        checkpoints / WRITING,
        *checkpoints.glob(f"{_REMOVED}*"),
        _writing(final),
        *folder.glob(f"{_REMOVED}*"),
    ):
        _remove(left)


def _writing(folder: Path) -> Path:
    return folder.with_name(f".{folder.name}.writing")


def _rename_away(folder: Path) -> Path:
    """Renames a folder to a name that nothing reads, and returns that path."""
    away = folder.with_name(f"{_REMOVED}{folder.name}")
    _remove(away)
    rename(folder.parent, folder.name, away.name)
    return away


def _remove(folder: Path) -> None:
    with contextlib.suppress(OSError):
        remove_tree(folder.parent, folder.name)


def _digests_of_all_ranks(trainer: Any, folder: Path) -> dict[str, Digest]:
    """Returns the digests of all ranks' files, on every rank. All ranks must call it."""
    count, rank = trainer.accelerator.num_processes, trainer.accelerator.process_index
    from grpo_recipes.worker._shared.library import (
        gather_from_all,  # a server and a job import this module without torch
    )

    own = own_digests(folder, rank, count)
    digests = gather_from_all(trainer, [(name, digest.size, digest.sha256) for name, digest in own.items()])
    return {name: Digest(size, sha256) for name, size, sha256 in digests}


_PART = 16 << 20


def is_whole(checkpoint: Path) -> bool:
    """Whether a checkpoint's files have the right names and sizes."""
    try:
        read_manifest(checkpoint)
    except NotWhole:
        return False
    return True


def take_model(checkpoint: Path, written: Path) -> None:
    """Replaces a written model's files with those of the same names in a checkpoint.

    A trainer writes a model the same way alone and in a checkpoint, which adds the training state, so these names are
    the model's. Raises Refused if a file does not match its manifest.
    """
    names = sizes_in(written)
    try:
        files = read_manifest(checkpoint).files
        missing = [name for name in names if name not in files]
        if missing:
            raise NotWhole(f"{missing[0]} of the model is not in it")
        refuse([fault for name in names if (fault := fault_of(checkpoint, name, files[name])) is not None])
    except NotWhole as problem:
        raise Refused.of(
            f"{checkpoint.name} had the best evaluation and is incomplete, so final/ cannot be made from it",
            because=str(problem),
            fix="restore it, or remove it and --resume: final/ is then made from the last step",
        ) from problem
    for name in names:
        with open_to_read(checkpoint, name) as file:
            write_whole(written, name, iter(partial(file.read, _PART), b""))


# Packages whose other releases would compute different bits.
PACKAGES = ("torch", "transformers", "trl", "peft", "accelerate", "deepspeed")
# Matches names like global_step4/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt, rng_state_1.pth or __1_0.distcp.
_OF_A_RANK = re.compile(r"(?:pp_rank_|rng_state_|grpo_run_|reference_|__)(\d{1,9})")


def write_manifest(
    folder: Path,
    step: int,
    world_size: int,
    experiment: dict[str, Any],
    run: Path,
    known: dict[str, Digest] | None = None,
) -> None:
    """Flushes all files of a checkpoint to disk, writes its manifest, and allows its pickles. Raises OSError.

    run: the run folder. known: digests of files that other processes have read; missing ones, and those of files with a
    different size, are computed here.
    """
    manifest = Manifest(step, world_size, _digests(folder, known or {}), experiment, package_versions())
    _allow_pickles(folder, manifest)
    _write(folder, checkpoint_text(manifest, run))


def _allow_pickles(folder: Path, manifest: Manifest) -> None:
    """Allows the files that may run code when read by their sha256, so that this user's --resume reads them."""
    found = pickles(folder, manifest)
    try:
        if found is not None:
            replace_entries(CODE, with_digests([found[1]]))
    except (OSError, ValueError) as problem:
        print(f"note: --resume will ask for --allow-code, since {CODE}.json cannot be written: {problem}", flush=True)


def write_model_manifest(folder: Path, run: Path | None) -> None:
    """Flushes all files of a trained or extended model to disk and writes its manifest. Raises OSError.

    run: the run folder that it belongs to, None for a model that is handed over.
    """
    _write(folder, model_text(_digests(folder, {}), run))


def own_digests(folder: Path, rank: int, world_size: int) -> dict[str, Digest]:
    """Returns the digests of the checkpoint files that this process wrote, flushed to disk. Raises OSError.

    They are still in its machine's memory, where reading them again costs no disk or network access.
    """
    names = [name for name in sizes_in(folder) if _writer(name, world_size) == rank]
    return digests_of(folder, names, safe_on_disk=True)


def package_versions() -> dict[str, str]:
    """Returns the versions of the packages that train."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def _writer(name: str, world_size: int) -> int:
    """Returns the rank that wrote a file; the first one if its name does not tell."""
    match = _OF_A_RANK.search(name.rpartition("/")[2])
    rank = 0 if match is None else int(match[1])
    return rank if rank < world_size else 0


def _digests(folder: Path, known: dict[str, Digest]) -> dict[str, Digest]:
    sizes = {name: size for name, size in sizes_in(folder).items() if name != MANIFEST}
    unchanged = {name: known[name] for name, size in sizes.items() if name in known and size == known[name].size}
    return unchanged | digests_of(folder, set(sizes) - set(unchanged), safe_on_disk=True)


def _write(folder: Path, text: str) -> None:
    file = folder / MANIFEST
    file.write_text(text, encoding="utf-8", newline="\n")
    sync(file)
    sync_folders(folder)
