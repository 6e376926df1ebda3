"""Trains the run folder that holds worker/train.py. `--resume`: from its last checkpoint."""

import sys
from pathlib import Path

from grpo_recipes.worker.run import train

if __name__ == "__main__":
    sys.exit(train(Path(__file__).resolve().parent.parent, resume="--resume" in sys.argv[1:]))
