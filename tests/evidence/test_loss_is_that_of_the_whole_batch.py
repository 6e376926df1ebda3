"""LOS001: the threshold of entropies is that of all processes, so any number of them has the gradient of one."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from planned import resolved

pytestmark = pytest.mark.stack

SCRIPT = Path(__file__).with_name("entropies_of_two_processes.py")
Rows = list[list[int]]


def _marked(processes: int) -> Rows:
    """The marks of all rows, in the order of the processes."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    meet = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "ACCELERATE_USE_CPU": "true"}
    all_of_them = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT)],
            env={**os.environ, **meet, "WORLD_SIZE": str(processes), "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(processes)
    ]
    said = [process.communicate(timeout=300)[0] for process in all_of_them]
    return [row for text in said for row in json.loads(text.splitlines()[-1])]


def test_two_processes_mark_the_tokens_that_one_marks() -> None:
    marked = _marked(2)
    assert marked == _marked(1)
    assert sum(map(sum, marked[:4])) > sum(map(sum, marked[4:])) > 0


@pytest.mark.parametrize(("size", "refused"), [("auto", []), (16, []), (8, ["LOS001"])])
def test_processes_alone_are_not_refused(tmp_path: Path, size: int | str, refused: list[str]) -> None:
    training = {"prompts_per_step": 8, "max_steps": 1, "per_device_train_batch_size": size}
    resolution = resolved(tmp_path, 2, {"num_generations": 4, "top_entropy_quantile": 0.2}, training)
    assert [finding.rule for finding in resolution.findings if finding.severity == "error"] == refused
