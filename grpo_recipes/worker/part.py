"""Runs a part of the worker, named by its module in this folder, in a separate process.

    python -P worker/part.py NAME [ARGUMENT ...]
    python -P worker/grpo_recipes.zip NAME [ARGUMENT ...]

A run folder has the archive, which starts with PART_OF_ARCHIVE (render/run_folder.py).

The part's `main` takes the arguments and returns an exit code, None for 0.
"""

import importlib
import sys
from pathlib import Path

# Only the package of this file can be imported, nothing else next to it.
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import grpo_recipes  # noqa: F401

del sys.path[0]

if __name__ == "__main__":
    sys.exit(importlib.import_module(f"grpo_recipes.worker.{sys.argv[1]}").main(sys.argv[2:]))
