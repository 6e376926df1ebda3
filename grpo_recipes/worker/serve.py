"""Serves and trains the run folder that holds worker/serve.py. `--resume`: from its last checkpoint.

`--alone ADDRESS`: serves alone, for trainers on other machines. ADDRESS: name or address of the one with rank 0; the
server listens where this machine faces it.
"""

import argparse
import sys
from pathlib import Path

# The package beside this file, and nothing else that lies in a run folder, can be imported.
sys.path.insert(0, str(Path(__file__).resolve().parent))
import grpo_recipes  # noqa: F401

del sys.path[0]

from grpo_recipes.worker.run_with_server import serve
from grpo_recipes.worker.server_alone import serve_alone

if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--resume", action="store_true")
    options.add_argument("--alone", metavar="ADDRESS")
    given = options.parse_args()
    folder = Path(__file__).resolve().parent.parent
    if given.alone is not None:
        sys.exit(serve_alone(folder, address=given.alone))
    sys.exit(serve(folder, resume=given.resume))
