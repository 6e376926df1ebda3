"""One vLLM server: starts it in its own process group, waits for it, and stops it completely."""

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
from grpo_recipes.worker._shared.planned import sampled_model
from grpo_recipes.worker.serving import health
from grpo_recipes.worker.serving.health import HOST, ServerProblem, free_port, holder, is_free
from grpo_recipes.worker.serving.other_machine import Wishes

LOG_FILE = "vllm_server.log"
_POLL_S = 0.2
_LEAVE_S = 5.0
_PORT_S = 5.0
_SHOWN_LINES = 25
_LONGEST_TAIL = 1_000_000
_LONGEST_CAUSE = 300
# vLLM's processes end one after the other: the last exceptions only say that another process has the root cause.
_RAISED = re.compile(r"\b\w*(Error|Exception): .+|^  Value error, .+")
_NO_CAUSE = ("root cause", "WARNING")
# Outlives the process that started a server just long enough to kill the group $1. Its standard input is held by that
# process alone: closed without a word, it was killed. A server killed with it would leave its engine behind, which has
# the memory of the GPUs. A Ctrl-C in a terminal reaches every process there.
_KEEPER = 'trap "" INT TERM HUP; read -r -N 1 word || kill -KILL -- "-$1" 2> /dev/null'


@dataclass(frozen=True, slots=True)
class Server:
    """A server that was started: its process leads its group. log_start: where its output begins in the log."""

    process: subprocess.Popen[bytes]
    keeper: subprocess.Popen[bytes]
    url: str
    log: Path
    log_start: int

    def has_ended(self) -> bool:
        """Whether the server's process is gone."""
        return self.process.poll() is not None

    def death(self) -> str:
        """How the server's process ended, in words."""
        code = self.process.wait()
        return f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"

    def output(self) -> str:
        """What the server said, without the beginning of a very long story."""
        with open_to_read(self.log.parent, self.log.name) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(self.log_start, size - _LONGEST_TAIL))
            return file.read().decode(errors="replace").rstrip()

    def last_lines(self) -> str:
        """The end of it."""
        return "\n".join(self.output().splitlines()[-_SHOWN_LINES:])


@contextlib.contextmanager
def running(
    plan: Plan, planned: VllmServer, folder: Path, wishes: Wishes, on_start: Callable[[str], object], host: str = HOST
) -> Iterator[Server | None]:
    """The server of a run when it can work, None where the run is asked to stop before that. It is ended afterwards.

    on_start: called with its address when it is started. Raises ServerProblem, with its last lines printed.
    """
    model, revision = sampled_model(plan, folder)
    server = start(planned, model, revision, folder, host=host)
    try:
        on_start(server.url)
        yield server if wait_until_up(server, model, planned.startup_timeout, wishes) else None
    except ServerProblem:
        print(hide_secrets(server.last_lines()), file=sys.stderr, flush=True)
        raise
    finally:
        end(server)


def start(planned: VllmServer, model: str, revision: str | None, folder: Path, *, host: str = HOST) -> Server:
    """Starts the server of a run folder. Raises ServerProblem if its port is taken.

    host: the address of this machine that it listens on; without it, only this machine can call the server.
    """
    port = _port(planned, host)
    known = {"{model}": model, "{host}": host, "{port}": str(port)}
    words = [known.get(word, word) for word in planned.command]
    words += [] if revision is None else ["--revision", revision]
    path = folder / LOG_FILE
    # vLLM's own processes find each other by it: on a machine of several networks they would guess.
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


def wait_until_up(server: Server, model: str, timeout_s: float, wishes: Wishes) -> bool:
    """Waits until the server can work; returns whether it can, which it cannot when the run is asked to stop.

    Raises ServerProblem when it ends, takes too long or has another model.
    """
    give_up = time.monotonic() + timeout_s
    while not health.is_healthy(server.url):
        if server.has_ended():
            raise _problem(server, f"the vLLM server {server.death()} before it could work")
        if time.monotonic() > give_up:
            fix = "more vllm_server.startup_timeout if it was still loading"
            raise _problem(server, f"the vLLM server was not up after {timeout_s:g} seconds", fix)
        if wishes.wait(_POLL_S) or wishes.orphaned:
            return False
    listed = health.models(server.url)
    names = [name for one in listed or () for name in (one.get("id"), one.get("root"))]
    if listed is not None and model not in names:
        raise ServerProblem.of(f"the vLLM server serves {', '.join(map(str, dict.fromkeys(names)))}, not {model}")
    return True


def end(server: Server) -> None:
    """Ends the server and all that belongs to it: a moment to leave by itself, then it is killed."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(server.process.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.process.wait(_LEAVE_S)
    kill(server.process)
    with contextlib.suppress(OSError):  # the keeper itself may have been killed
        server.keeper.communicate(b".", timeout=_LEAVE_S)


def _port(planned: VllmServer, host: str) -> int:
    """A free port, or the planned one, for which a server that was just killed is waited out."""
    if planned.port is None:
        return free_port(host)
    give_up = time.monotonic() + _PORT_S
    while not is_free(planned.port, host):
        who = holder(planned.port)
        if who is not None or time.monotonic() > give_up:
            raise ServerProblem.of(
                f"port {planned.port} of the vLLM server is taken",
                because=f"{who or 'another program'} listens on it",
                fix="vllm_server.port: auto, or another number",
            )
        time.sleep(_POLL_S)
    return planned.port


def _problem(server: Server, message: str, fix: str | None = None) -> ServerProblem:
    """What went wrong by its output, and where the rest is."""
    lines = server.output().splitlines()
    found = [
        match[0] for line in lines if (match := _RAISED.search(line)) and not any(words in line for words in _NO_CAUSE)
    ]
    cause = (found or lines)[-1:]
    because = [one.strip()[:_LONGEST_CAUSE] for one in cause]
    return ServerProblem(mistake(message, because=because, fix=fix, more=f"{server.log.name} in the run folder"))


VISIBLE = "CUDA_VISIBLE_DEVICES"


def visible(places: Sequence[int], environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variable that shows the GPUs at these places of those that this run may see; {} for no places.

    Raises ServerProblem when it may see fewer.
    """
    if not places:
        return {}
    listed = environment.get(VISIBLE)
    if listed is None:
        return {VISIBLE: ",".join(map(str, places))}
    names = [name.strip() for name in listed.split(",") if name.strip()]
    if max(places) >= len(names):
        raise ServerProblem.of(
            f"the run needs {max(places) + 1} GPUs for trainer and vLLM server, it may see {len(names)}",
            because=f"{VISIBLE} is {listed!r}",
            fix="start it where it sees them, or plan again there",
        )
    return {VISIBLE: ",".join(names[place] for place in places)}


PART = Path(__file__).parents[1] / "part.py"
_EXTENDING_POLL_S = 0.5


def extended(folder: Path, wishes: Wishes) -> bool:
    """Writes the model that trainer and server start from; false when asked to stop. Raises ServerProblem."""
    helper = subprocess.Popen(
        [sys.executable, "-P", "-u", str(PART), "extend", str(folder)],
        stdin=subprocess.DEVNULL,
        preexec_fn=processes.die_with_parent,
    )
    while helper.poll() is None:
        if wishes.wait(_EXTENDING_POLL_S) or wishes.orphaned:
            processes.kill(helper)
            return False
    if helper.returncode:
        raise ServerProblem.of(
            "the model with the added tokens or the merged adapter could not be written; train.log has why"
        )
    return True
