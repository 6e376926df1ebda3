"""Starts a vLLM server in its own process group, waits until it is up, and stops all of its processes."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grpo_recipes.contract.files.folder_files import open_to_append, open_to_read
from grpo_recipes.contract.findings.finding import mistake
from grpo_recipes.contract.host import processes
from grpo_recipes.contract.host.processes import die_with_parent, kill
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.plan_sections import VllmServer
from grpo_recipes.contract.secrets.redact import hide_secrets
from grpo_recipes.worker._shared.part_program import PART_PROGRAM
from grpo_recipes.worker._shared.planned import model_of_sampler
from grpo_recipes.worker.serving import health
from grpo_recipes.worker.serving.health import HOST, ServerProblem, free_port, holder, is_free
from grpo_recipes.worker.serving.other_machine import StopRequests

LOG_FILE = "vllm_server.log"
_POLL_S = 0.2
_LEAVE_S = 5.0
_PORT_S = 5.0
_SHOWN_LINES = 25
_LONGEST_TAIL = 1_000_000
_LONGEST_CAUSE = 300
# vLLM's processes end one after another: the last exceptions only report that another process has the root cause.
_RAISED = re.compile(r"\b\w*(Error|Exception): .+|^  Value error, .+")
_NO_CAUSE = ("root cause", "WARNING")
# Kills the process group $1 if the process that started the server is killed. Only that process has the other end of
# this script's standard input: if it closes before a byte arrives, the process was killed. Otherwise the server's
# engine would survive and keep the GPUs' memory. The traps are for a Ctrl-C, which reaches every process of a terminal.
_KEEPER = 'trap "" INT TERM HUP; read -r -N 1 word || kill -KILL -- "-$1" 2> /dev/null'


@dataclass(frozen=True, slots=True)
class Server:
    """A started server, whose process leads its group. log_start: where its output begins in the log."""

    process: subprocess.Popen[bytes]
    keeper: subprocess.Popen[bytes]
    url: str
    log: Path
    log_start: int

    def has_ended(self) -> bool:
        """Whether the server's process has ended."""
        return self.process.poll() is not None

    def death(self) -> str:
        """Returns in words how the server's process ended."""
        code = self.process.wait()
        return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"

    def output(self) -> str:
        """Returns the server's output, without the beginning if it is very long."""
        with open_to_read(self.log.parent, self.log.name) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(self.log_start, size - _LONGEST_TAIL))
            return file.read().decode(errors="replace").rstrip()

    def last_lines(self) -> str:
        """Returns the last lines of the output."""
        return "\n".join(self.output().splitlines()[-_SHOWN_LINES:])


@contextlib.contextmanager
def running(
    plan: Plan,
    planned: VllmServer,
    folder: Path,
    stop_requests: StopRequests,
    on_start: Callable[[str], object],
    host: str = HOST,
) -> Iterator[Server | None]:
    """Yields the server of a run once it is up, or None if the run is asked to stop before that; ends it afterwards.

    on_start: called with its address when it is started. Raises ServerProblem, after printing its last lines.
    """
    model, revision = model_of_sampler(plan, folder)
    server = start(planned, model, revision, folder, host=host)
    try:
        on_start(server.url)
        yield server if wait_until_up(server, model, planned.startup_timeout, stop_requests) else None
    except ServerProblem:
        print(hide_secrets(server.last_lines()), file=sys.stderr, flush=True)
        raise
    finally:
        end(server)


def start(planned: VllmServer, model: str, revision: str | None, folder: Path, *, host: str = HOST) -> Server:
    """Starts the server of a run folder. Raises ServerProblem if its port is taken.

    host: the address of this machine that it listens on; by default only this machine can call it.
    """
    port = _port(planned, host)
    known = {"{model}": model, "{host}": host, "{port}": str(port)}
    words = [known.get(word, word) for word in planned.command]
    words += [] if revision is None else ["--revision", revision]
    path = folder / LOG_FILE
    # vLLM's own processes find each other by this address; on a machine with several networks they would guess.
    own_address = {} if host == HOST else {"VLLM_HOST_IP": host}
    with open(open_to_append(folder, LOG_FILE), "ab") as log:
        log_start = log.tell()
        process = subprocess.Popen(
            [sys.executable, "-P", *words],
            env={**os.environ, **planned.environment, **visible(planned.gpus), **own_address},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with_parent,
        )
    keeper = subprocess.Popen(
        ["bash", "-c", _KEEPER, "keeper", str(process.pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )
    url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    return Server(process, keeper, url, path, log_start)


def wait_until_up(server: Server, model: str, timeout_s: float, stop_requests: StopRequests) -> bool:
    """Waits until the server is up, and returns true; returns false if the run is asked to stop.

    Raises ServerProblem if the server ends, takes too long or has a different model.
    """
    give_up = time.monotonic() + timeout_s
    while not health.is_healthy(server.url):
        if server.has_ended():
            raise _problem(server, f"the vLLM server {server.death()} before it was up")
        if time.monotonic() > give_up:
            fix = "a larger vllm_server.startup_timeout if it was still loading"
            raise _problem(server, f"the vLLM server was not up after {timeout_s:g} seconds", fix)
        if stop_requests.wait(_POLL_S) or stop_requests.is_orphan:
            return False
    listed = health.models(server.url)
    names = [name for served in listed or () for name in (served.get("id"), served.get("root"))]
    if listed is not None and model not in names:
        raise ServerProblem.of(f"the vLLM server serves {', '.join(map(str, dict.fromkeys(names)))}, not {model}")
    return True


def end(server: Server) -> None:
    """Ends the server and all processes of its group: it has a moment to exit by itself, then it is killed."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.process.wait(_LEAVE_S)
    kill(server.process)
    with contextlib.suppress(OSError):  # the keeper itself may have been killed
        server.keeper.communicate(b".", timeout=_LEAVE_S)


def _port(planned: VllmServer, host: str) -> int:
    """Returns a free port, or the planned one, after waiting for a server that was just killed to release it."""
    if planned.port is None:
        return free_port(host)
    give_up = time.monotonic() + _PORT_S
    while not is_free(planned.port, host):
        who = holder(planned.port)
        if who is not None or time.monotonic() > give_up:
            raise ServerProblem.of(
                f"port {planned.port} of the vLLM server is taken",
                because=f"{who or 'another program'} listens on it",
                fix="vllm_server.port: auto, or a different number",
            )
        time.sleep(_POLL_S)
    return planned.port


def _problem(server: Server, message: str, fix: str | None = None) -> ServerProblem:
    """Returns the problem, with the cause from the server's output and the name of its log."""
    lines = server.output().splitlines()
    causes = [
        match[0] for line in lines if (match := _RAISED.search(line)) and not any(words in line for words in _NO_CAUSE)
    ]
    cause = (causes or lines)[-1:]
    because = [line.strip()[:_LONGEST_CAUSE] for line in cause]
    return ServerProblem(mistake(message, because=because, fix=fix, more=f"{server.log.name} in the run folder"))


VISIBLE = "CUDA_VISIBLE_DEVICES"


def visible(places: Sequence[int], environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Returns the variable that selects these GPUs among those visible to this run; {} for no GPUs.

    Raises ServerProblem if the run sees fewer.
    """
    if not places:
        return {}
    listed = environment.get(VISIBLE)
    if listed is None:
        return {VISIBLE: ",".join(map(str, places))}
    names = [name.strip() for name in listed.split(",") if name.strip()]
    if max(places) >= len(names):
        raise ServerProblem.of(
            f"the run needs {max(places) + 1} GPUs for trainer and vLLM server, and sees {len(names)}",
            because=f"{VISIBLE} is {listed!r}",
            fix="start it where all of them are visible, or plan again for this machine",
        )
    return {VISIBLE: ",".join(names[index] for index in places)}


_EXTENDING_POLL_S = 0.5


def extend_model(folder: Path, stop_requests: StopRequests) -> bool:
    """Writes the model that trainer and server load; returns false if asked to stop. Raises ServerProblem."""
    helper = subprocess.Popen(
        [sys.executable, "-P", "-u", PART_PROGRAM, "extend", str(folder)],
        stdin=subprocess.DEVNULL,
        preexec_fn=processes.die_with_parent,
    )
    while helper.poll() is None:
        if stop_requests.wait(_EXTENDING_POLL_S) or stop_requests.is_orphan:
            processes.kill(helper)
            return False
    if helper.returncode:
        raise ServerProblem.of(
            "the model with the added tokens or the merged adapter could not be written; train.log has the reason"
        )
    return True
