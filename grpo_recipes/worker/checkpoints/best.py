"""The model of an earlier checkpoint, where that was better than the last one."""

from functools import partial
from pathlib import Path

from grpo_recipes.contract.files.folder_files import open_to_read, write_whole
from grpo_recipes.contract.integrity.digests import sizes_in
from grpo_recipes.contract.integrity.manifest import NotWhole, fault_of, read_manifest, refuse
from grpo_recipes.worker._shared.refused import Refused

_PART = 16 << 20


def is_whole(checkpoint: Path) -> bool:
    """Whether a checkpoint's files have the names and sizes that they should."""
    try:
        read_manifest(checkpoint)
    except NotWhole:
        return False
    return True


def take_model(checkpoint: Path, written: Path) -> None:
    """Replaces the files of a model that the trainer wrote by those of the same names in a checkpoint.

    A trainer writes a model into a checkpoint as it writes it alone, with the states of the training beside it, so
    these names are the model's. Raises Refused where one of them is not as its manifest says.
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
            f"{checkpoint.name} had the best evaluation and is not whole, so final/ cannot be made of it",
            because=str(problem),
            fix="bring it back, or remove it and --resume: final/ is then made of the last step",
        ) from problem
    for name in names:
        with open_to_read(checkpoint, name) as file:
            write_whole(written, name, iter(partial(file.read, _PART), b""))
