"""Waits until all machines of a run have met, then starts accelerate's launcher for this one.

python worker/meet.py NODE NODES ADDRESS PORT [--resume]
"""

import runpy
import sys
from pathlib import Path

# Only the package in the archive next to this file can be imported, nothing else in a run folder.
sys.path.insert(0, str(Path(__file__).resolve().with_name("grpo_recipes.zip")))
import grpo_recipes  # noqa: F401

del sys.path[0]

from accelerate.utils import launch

from grpo_recipes.worker._shared.replacing import replace
from grpo_recipes.worker.rendezvous import Machine, meet

if __name__ == "__main__":
    node, nodes, address, port, *more = sys.argv[1:]
    folder = Path(__file__).resolve().parent.parent
    store = meet(Machine(folder, int(node), int(nodes), address, int(port)), resumed="--resume" in more)
    replace(launch, "is_port_in_use", lambda _: False)  # the store that uses it also serves torch's rendezvous
    sys.argv[1:] = ["--config_file", str(folder / "accelerate.yaml"), "--machine_rank", node]
    sys.argv += ["--main_process_ip", address, "--main_process_port", port, str(folder / "worker" / "train.py"), *more]
    runpy.run_module("accelerate.commands.launch", run_name="__main__", alter_sys=True)
