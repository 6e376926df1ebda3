"""Runs functions of in_library.py in processes of their own that have torch, transformers and TRL imported already.

One process imports the libraries once and forks for each call, so that a call costs a fraction of a second and leaves
nothing behind for the next one. Calls and answers are lines of JSON.
"""

import json
import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LIMIT_S = 120


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call came to.

    result: what the function returned, None when it raised. raised: the exception's type, "" without one.
    text: its message. stage: the last one that was reached: "config", "trainer" or "train". warnings: their texts.
    """

    result: Any
    raised: str
    text: str
    stage: str
    warnings: list[str]


def environment_of_ranks(number: int = 2) -> dict[str, str]:
    """What a launcher sets for each of so many ranks, "{rank}" to be filled in."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    ranks = {"RANK": "{rank}", "LOCAL_RANK": "{rank}", "WORLD_SIZE": str(number)}
    return {**ranks, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}


class Library:
    """The process that forks."""

    def __init__(self, folder: Path) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "HF_HUB_OFFLINE": "1"}
        environment["DS_ACCELERATOR"] = "cpu"
        environment["PYTHONPATH"] = str(Path(__file__).parents[1])
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("in_library.py")), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(folder / "stderr.txt").open("w"),
            text=True,
            env=environment,
            cwd=folder,
        )
        self._folder = folder

    def call(self, function: str, **arguments: Any) -> Answer:
        """The answer of one function of in_library.py, or "module.function" of a file beside it, in its own process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"function": function, "arguments": arguments, "limit_s": LIMIT_S}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, (self._folder / "stderr.txt").read_text()[-2000:]
        return Answer(**json.loads(line))

    def close(self) -> None:
        """Ends the process; it ends by itself when its input does."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)
