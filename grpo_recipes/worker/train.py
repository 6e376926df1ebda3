"""Trains the run folder that holds worker/train.py; with `--resume` from its last checkpoint."""

import sys
from pathlib import Path

# Only the package in the archive next to this file can be imported, nothing else in a run folder.
sys.path.insert(0, str(Path(__file__).resolve().with_name("grpo_recipes.zip")))
import grpo_recipes  # noqa: F401

del sys.path[0]

from grpo_recipes.worker.run import train
from grpo_recipes.worker.survival.interruption import leave

if __name__ == "__main__":
    leave(train(Path(__file__).resolve().parent.parent, resume="--resume" in sys.argv[1:]))
