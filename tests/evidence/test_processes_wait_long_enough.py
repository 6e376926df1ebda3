"""WLD008: how long process groups wait, by themselves and as the worker makes them."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.stack

ROOT = Path(__file__).parents[2]


def _seconds(how: str, folder: Path) -> list[list[float]]:
    """What each of two processes says of its groups: the first, and one made afterwards."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    meet = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "ACCELERATE_USE_CPU": "true"}
    both = [
        subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("in_two_processes.py")), how, str(folder)],
            env={**os.environ, **meet, "RANK": rank, "LOCAL_RANK": rank, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in "01"
    ]
    said = [process.communicate(timeout=300)[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    return [json.loads(text.splitlines()[-1]) for text in said]


def test_on_the_cpu_ddp_timeout_reaches_no_group_by_itself(tmp_path: Path) -> None:
    assert _seconds("trl", tmp_path) == [[1800, 1800]] * 2


def test_the_worker_hands_it_to_every_group(tmp_path: Path) -> None:
    assert _seconds("worker", tmp_path) == [[77, 77]] * 2
