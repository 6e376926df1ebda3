"""Lets the machines of a run folder meet, then becomes what comes after `--`.

python worker/meet.py NODE NODES ADDRESS PORT [--resume] -- COMMAND [ARGUMENT ...]
"""

import os
import sys
from pathlib import Path

# The package beside this file, and nothing else that lies in a run folder, can be imported.
sys.path.insert(0, str(Path(__file__).resolve().parent))
import grpo_recipes  # noqa: F401

del sys.path[0]

from grpo_recipes.worker.machines.machine import Machine
from grpo_recipes.worker.machines.meeting import meet

if __name__ == "__main__":
    end = sys.argv.index("--")
    node, nodes, address, port, *more = sys.argv[1:end]
    machine = Machine(Path(__file__).resolve().parent.parent, int(node), int(nodes), address, int(port))
    code = meet(machine, resumed="--resume" in more)
    if code:
        sys.exit(code)
    os.execvp(sys.argv[end + 1], sys.argv[end + 1 :])
