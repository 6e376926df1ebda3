"""A vLLM server of a test, as somebody else would run it beside a training, and the Python of the trainings."""

import atexit
import functools
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from unittest import mock

from support import warm_python

START_S, STOP_S = 240, 20
TORCHVISION = Path(__file__).parents[2] / "build" / "torchvision"
VARIABLES = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "OMP_NUM_THREADS": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "WARNING",
    "VLLM_CPU_KVCACHE_SPACE": "1",
}
# What the client of TRL needs of a server, and what makes one small.
FLAGS = (
    *("--dtype", "float32", "--enforce-eager", "--max-num-seqs", "16"),
    *(
        "--weight-transfer-config",
        '{"backend": "nccl"}',
        "--logprobs-mode",
        "processed_logprobs",
        "--max-logprobs",
        "-1",
    ),
)


def environment(**more: str) -> dict[str, str]:
    """What processes with vLLM need, and nothing of an outer launcher."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
    return {**kept, **VARIABLES, **more}


@functools.cache
def warm() -> str:
    """A Python whose trainings are forks of a process that has imported vLLM. Runs any other program after -Xwarm."""
    stack = ExitStack()
    atexit.register(stack.close)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    with mock.patch.dict(os.environ, {**VARIABLES, "PYTHONPATH": str(TORCHVISION)}):
        return str(stack.enter_context(warm_python.made(folder)) / "python")


def free_port() -> int:
    """A port of 127.0.0.1 that nothing listens on at this moment."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@contextmanager
def serving(model: Path, log: Path, *flags: str) -> Iterator[str]:
    """The address of a server of this model, which is gone afterwards. log: where it writes."""
    port = free_port()
    command = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", str(model), "--host", "127.0.0.1"]
    with log.open("w") as output:
        server = subprocess.Popen(
            [*command, "--port", str(port), *FLAGS, *flags],
            env=environment(VLLM_SERVER_DEV_MODE="1"),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait_for(f"http://127.0.0.1:{port}/health", server, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        _end(server)


def _wait_for(address: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    until = time.monotonic() + START_S
    while time.monotonic() < until and server.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    raise RuntimeError(f"the server ended with {server.poll()} or did not come:\n{log.read_text()[-3000:]}")


def _end(server: "subprocess.Popen[bytes]") -> None:
    """Ends the server and, since it is the leader of a group, the engine that it started."""
    server.terminate()
    with suppress(subprocess.TimeoutExpired):
        server.wait(STOP_S)
    with suppress(ProcessLookupError):
        os.killpg(server.pid, signal.SIGKILL)
    server.wait(STOP_S)
