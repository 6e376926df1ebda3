"""Checkpoints and models that are whole or not there."""

import os
import shutil
from pathlib import Path
from typing import Any

from transformers.trainer_utils import rotate_checkpoints


def latest_checkpoint(checkpoints: Path) -> Path | None:
    """The checkpoint of the highest step, None if there is none."""
    found = [path for path in checkpoints.glob("checkpoint-*") if path.name.partition("-")[2].isdigit()]
    return max(found, key=step_of, default=None)


def step_of(checkpoint: Path) -> int:
    """The step of a folder named checkpoint-<step>."""
    return int(checkpoint.name.partition("-")[2])


def save_whole_checkpoints(trainer: Any) -> None:
    """Lets the trainer write each checkpoint beside its place and renames it when all ranks have written.

    Source: transformers 5.23.0 trainer.py `_save_checkpoint`, which writes in place and then removes old
    checkpoints.
    """
    checkpoints = Path(trainer.args.output_dir)
    write = trainer._save_checkpoint

    def save(model: Any, trial: Any) -> None:
        writing = checkpoints / "writing"
        trainer.args.output_dir = str(writing)
        try:
            write(model, trial)
        finally:
            trainer.args.output_dir = str(checkpoints)
        name = f"checkpoint-{trainer.state.global_step}"
        trainer.accelerator.wait_for_everyone()
        if trainer.is_world_process_zero():
            put_in_place(writing / name, checkpoints / name)
            shutil.rmtree(writing, ignore_errors=True)
            rotate_checkpoints(str(checkpoints), save_total_limit=trainer.args.save_total_limit)
        trainer.accelerator.wait_for_everyone()

    trainer._save_checkpoint = save


def put_in_place(written: Path, place: Path) -> None:
    """Renames a written folder to its place; one of an earlier attempt that lies there is replaced."""
    if place.exists():
        shutil.rmtree(place)
    os.replace(written, place)


def save_final(trainer: Any, place: Path) -> None:
    """Writes the trained model or adapter, with its tokenizer, to `place`. All ranks call it."""
    writing = place.with_name(f".{place.name}.writing")
    trainer.save_model(str(writing))
    trainer.accelerator.wait_for_everyone()
    if trainer.is_world_process_zero():
        put_in_place(writing, place)
    trainer.accelerator.wait_for_everyone()
