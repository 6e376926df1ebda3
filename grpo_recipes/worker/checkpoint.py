"""Checkpoints and models that are whole or not there."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any


def latest_checkpoint(checkpoints: Path) -> Path | None:
    """The checkpoint of the highest step, None if there is none."""
    return max(_all(checkpoints), key=step_of, default=None)


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
            remove_old(checkpoints, trainer.args.save_total_limit)
        trainer.accelerator.wait_for_everyone()

    trainer._save_checkpoint = save


def remove_old(checkpoints: Path, limit: int | None) -> None:
    """Removes all but the `limit` checkpoints of the highest steps; None keeps all, 0 and less too."""
    if limit is not None and limit > 0:
        for checkpoint in sorted(_all(checkpoints), key=step_of)[:-limit]:
            shutil.rmtree(checkpoint, ignore_errors=True)


def put_in_place(written: Path, place: Path) -> None:
    """Renames a written folder to its place; one of an earlier attempt that lies there is replaced."""
    if place.exists():
        shutil.rmtree(place)
    os.replace(written, place)


def save_final(trainer: Any, place: Path, hand_over: Callable[[Path], None]) -> None:
    """Writes the trained model or adapter, with its tokenizer, to `place`. All ranks call it.

    hand_over: adds to the written folder, on the first rank, before it is put in its place.
    """
    writing = place.with_name(f".{place.name}.writing")
    trainer.save_model(str(writing))
    trainer.accelerator.wait_for_everyone()
    if trainer.is_world_process_zero():
        hand_over(writing)
        put_in_place(writing, place)
    trainer.accelerator.wait_for_everyone()


def _all(checkpoints: Path) -> list[Path]:
    return [path for path in checkpoints.glob("checkpoint-*") if path.name.partition("-")[2].isdigit()]
