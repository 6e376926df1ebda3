"""What a run leaves that another one must equal, and a run as a kill leaves it."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

from safetensors import safe_open
from worker_runs import Changes

from grpo_recipes.contract.metric_names import PHASE_SECONDS

# What is measured of this process in seconds and bytes, and what only says when a process began and ended.
TIMES = ("time", "seconds", "step_time", "train_runtime", "memory_bytes", *PHASE_SECONDS.values())
OF_PROCESSES = ("start", "end")


def trained_lines(folder: Path) -> list[Changes]:
    """All lines of metrics.jsonl that are of the training, without times."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    kept = [line for line in lines if line["event"] not in OF_PROCESSES]
    return [{key: value for key, value in line.items() if key not in TIMES} for line in kept]


def weights(folder: Path) -> dict[str, str]:
    """The sha256 of every tensor of final/, by its name."""
    return _tensors(folder / "final")


def of_checkpoint(folder: Path, step: int) -> dict[str, str]:
    """The same of the model in a checkpoint."""
    return _tensors(folder / "checkpoints" / f"checkpoint-{step}")


def _tensors(folder: Path) -> dict[str, str]:
    import torch

    found = {}
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, "pt") as tensors:
            for name in tensors.keys():  # noqa: SIM118 (it is no dict)
                numbers = tensors.get_tensor(name).contiguous().view(torch.uint8).numpy()  # numpy has no bfloat16
                found[f"{file.name}:{name}"] = hashlib.sha256(numbers.tobytes()).hexdigest()
    return found


def killed_after(whole: Path, step: int, place: Path) -> Path:
    """A copy of a finished run as a kill after the checkpoint of `step` leaves it: it has told more than it saved."""
    shutil.copytree(whole, place)
    shutil.rmtree(place / "final")
    for checkpoint in (place / "checkpoints").glob("checkpoint-*"):
        if int(checkpoint.name.partition("-")[2]) > step:
            shutil.rmtree(checkpoint)
    record: dict[str, Any] = json.loads((place / "run.json").read_text())
    last = str(place / "checkpoints" / f"checkpoint-{step}") if step else None
    ended = {"status": "running", "exit_code": None, "final": None, "checkpoint": last}
    (place / "run.json").write_text(json.dumps({**record, **ended}))
    return place
