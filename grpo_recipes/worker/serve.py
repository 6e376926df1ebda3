"""Serves and trains the run folder that holds worker/serve.py.

`--resume`: from its last checkpoint. `--alone ADDRESS`: only serve, for trainers on other machines. ADDRESS: name or
address of the machine with rank 0; the server listens on this machine's address that faces it.
"""

import argparse
import sys
from pathlib import Path

# Only the package in the archive next to this file can be imported, nothing else in a run folder.
sys.path.insert(0, str(Path(__file__).resolve().with_name("grpo_recipes.zip")))
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
