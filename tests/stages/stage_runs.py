"""The first recipe of the stages, and what is read of a run."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "recipes" / "quickstart.yaml"
# Trains on the thousand held-out rows, which are read sooner than the seven thousand others.
FEW_ROWS, OTHERS = (str(QUICKSTART.with_suffix("") / name) for name in ("test.jsonl", "train.jsonl"))
FIRST = {
    "recipe": 1,
    "extends": str(QUICKSTART),
    "name": "first",
    "dataset": {"path": FEW_ROWS},
    "evaluation": None,
    "grpo": {"num_generations": 4},
    "training": {"prompts_per_step": 4, "max_steps": 2, "save_steps": 2, "lr_scheduler_type": "constant"},
}


@dataclass(frozen=True, slots=True)
class Run:
    """How a command ended, what it printed, and the run folder."""

    code: int
    said: str
    folder: Path

    @property
    def plan(self) -> dict[str, Any]:
        """plan.json."""
        found: dict[str, Any] = json.loads((self.folder / "plan.json").read_text())
        return found

    @property
    def log(self) -> str:
        """train.log."""
        return (self.folder / "train.log").read_text()

    def figures(self, name: str) -> list[float]:
        """A figure of each step."""
        lines = [json.loads(line) for line in (self.folder / "metrics.jsonl").read_text().splitlines()]
        return [line[name] for line in lines if line["event"] == "step"]


Command = Callable[..., "subprocess.CompletedProcess[str]"]
