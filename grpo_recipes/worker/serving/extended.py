"""The model with new tokens or a merged adapter, written by a process of its own before a server starts from it."""

import subprocess
import sys
from pathlib import Path

from grpo_recipes.contract.host import processes
from grpo_recipes.worker.serving.problem import ServerProblem
from grpo_recipes.worker.serving.wishes import Wishes

PART = Path(__file__).parents[1] / "part.py"
_POLL_S = 0.5


def extended(folder: Path, wishes: Wishes) -> bool:
    """Writes the model that trainer and server start from; false when asked to stop. Raises ServerProblem."""
    helper = subprocess.Popen(
        [sys.executable, "-P", "-u", str(PART), "extend", str(folder)],
        stdin=subprocess.DEVNULL,
        preexec_fn=processes.die_with_parent,
    )
    while helper.poll() is None:
        if wishes.wait(_POLL_S) or wishes.orphaned:
            processes.kill(helper)
            return False
    if helper.returncode:
        raise ServerProblem.of(
            "the model with the added tokens or the merged adapter could not be written; train.log has why"
        )
    return True
