"""One machine of a run, and what all of them know of their meeting."""

import hashlib
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_recipes.contract.files.folder_files import read_bytes
from grpo_recipes.contract.findings.mistake import Mistake

SAID_EVERY_S = 30.0
ANSWER_S = 60.0  # to find the mark of machine 0 in a shared folder: a network file system looks again after 30
POLL_S = 0.2
# The file of the run folder with the secret of one meeting.
MARK = ".meeting."


class Missing(Mistake):
    """A machine did not come, or left before all were there."""


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine of a run. node: its number of `nodes`; address, port: of machine 0."""

    folder: Path
    node: int
    nodes: int
    address: str
    port: int

    def introduction(self) -> dict[str, Any]:
        """What the machine has, for machine 0 to compare."""
        plan = hashlib.sha256(read_bytes(self.folder, "plan.json")).hexdigest()
        return {"node": self.node, "nodes": self.nodes, "plan": plan, "host": socket.gethostname(), "pid": os.getpid()}
