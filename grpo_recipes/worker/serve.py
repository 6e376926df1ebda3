"""Serves and trains the run folder that holds worker/serve.py. `--resume`: from its last checkpoint."""

import sys
from pathlib import Path

from grpo_recipes.worker.serving.run import serve

if __name__ == "__main__":
    sys.exit(serve(Path(__file__).resolve().parent.parent, resume="--resume" in sys.argv[1:]))
