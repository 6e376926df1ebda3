"""Connects the trainer to a vLLM server on a separate machine, through a notice in the run folder."""

import contextlib
import json
import os
import select
import signal
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, cast
from urllib.parse import urlsplit

from grpo_recipes.contract.files.bounded_json import read_json
from grpo_recipes.contract.files.folder_files import write_whole
from grpo_recipes.contract.findings.finding import of_record
from grpo_recipes.contract.host.processes import ASKING
from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.serving import health
from grpo_recipes.worker.serving.health import URL, ServerLost, ServerProblem, address_towards

NOTICE_FILE = "vllm_server.json"
State = Literal["starting", "up", "failed", "lost", "stopped", "done"]


@dataclass(frozen=True, slots=True)
class Notice:
    """The server's state.

    state: starting; up; failed: it did not start; lost: it died later; stopped: on request; done: the training has
    ended. attempt: differs at each start. url: None until it is up. reason: of failed, lost and stopped. findings: why
    it failed, as data.
    """

    state: State
    attempt: str
    url: str | None = None
    reason: str | None = None
    findings: tuple[dict[str, Any], ...] = ()

    @property
    def has_ended(self) -> bool:
        """Whether the server has ended."""
        return self.state not in ("starting", "up")


def write_notice(folder: Path, notice: Notice) -> None:
    """Replaces the notice. Raises OSError."""
    write_whole(folder, NOTICE_FILE, json.dumps(asdict(notice), indent=2, ensure_ascii=False) + "\n")


def read_notice(folder: Path) -> Notice | None:
    """Returns the notice, None if it is missing or cannot be read."""
    try:
        return Notice(**cast("dict[str, Any]", read_json(folder, NOTICE_FILE)))
    except (OSError, ValueError, TypeError):
        return None


_POLL_S = 0.5
# The server reports when it gives up; the trainers wait this much longer for its report.
_LONGER_S = 30.0


def wait_for_server(plan: Plan, folder: Path) -> None:
    """Waits in each process until the run's server on a separate machine is up; returns immediately without one.

    Afterwards environment variables have its address, exclude it from proxies, and make TRL open the process group for
    the weight sync at this machine's address on the route to it. Raises ServerProblem if the server is not up within
    vllm_server.startup_timeout, ServerLost if it is lost while waiting.
    """
    planned = None if plan.vllm is None else plan.vllm.server
    if planned is None or not planned.own_node:
        return
    is_first = os.environ.get("RANK", "0") == "0"
    if is_first:
        print("waiting for the vLLM server on its machine", flush=True)
    url = _url(folder, planned.startup_timeout + _LONGER_S)
    if is_first:
        print(f"the vLLM server answers at {url}", flush=True)
    host = str(urlsplit(url).hostname)
    os.environ[URL] = url
    os.environ["VLLM_HOST_IP"] = address_towards(host)
    for name in ("NO_PROXY", "no_proxy"):
        os.environ[name] = ",".join(filter(None, (os.environ.get(name), host)))


def loss_of_server(folder: Path, problem: BaseException | None = None) -> str | None:
    """Returns how the server on a separate machine was lost; None while it answers, and for a run without one.

    problem: the exception that ended the training; if the server was lost, it is TRL's.
    """
    if isinstance(problem, ServerLost):
        return str(problem)
    notice = read_notice(folder)
    if notice is None or notice.url is None or os.environ.get(URL) is None:
        return None
    if notice.has_ended:
        return f"the vLLM server {notice.reason or 'has ended'}"
    return None if health.is_healthy(notice.url) else f"the vLLM server at {notice.url} no longer answers"


def _url(folder: Path, patience_s: float) -> str:
    """Returns the server's URL. A notice of an end from before this process waited belongs to an earlier server."""
    first = last = read_notice(folder)
    give_up = time.monotonic() + patience_s
    while True:
        notice = read_notice(folder)
        if notice is not None and notice.state == "up" and notice.url and health.is_healthy(notice.url):
            return notice.url
        if notice is not None and notice.has_ended and notice != first:
            raise _end_problem(notice)
        if notice is not None and (last is None or notice.attempt != last.attempt):
            last, give_up = notice, time.monotonic() + patience_s
        if time.monotonic() > give_up:
            raise _timeout_problem(folder, notice, patience_s)
        time.sleep(_POLL_S)


def _end_problem(notice: Notice) -> Exception:
    if notice.state == "failed":
        findings = [of_record(record) for record in notice.findings]
        return (
            ServerProblem(*findings) if findings else ServerProblem.of(notice.reason or "the vLLM server did not start")
        )
    return ServerLost(f"the vLLM server {notice.reason or 'has ended'}")


def _timeout_problem(folder: Path, notice: Notice | None, patience_s: float) -> ServerProblem:
    if notice is None:
        because = f"it has not written {NOTICE_FILE}, which has its address, into {folder}"
    elif notice.has_ended:
        because = f"it reported: {(notice.reason or notice.state).splitlines()[0]}"
    elif notice.url is None:
        because = "it is still starting"
    else:
        because = f"it reports that it is up at {notice.url}, but does not answer this machine"
    return ServerProblem.of(
        f"no vLLM server after {patience_s:.0f} seconds",
        because=because,
        fix="start it on its machine with launch.sh --server, in this folder, on a disk that all machines share",
    )


class StopRequests:
    """Counts signals that ask this process to stop.

    parent: the process whose death also counts as a request, None if it may end earlier. An ignored signal stays
    ignored, as nohup expects, except SIGUSR1, which launch.sh ignores for programs that it would kill.
    """

    def __init__(self, parent: int | None) -> None:
        self._parent = parent
        self._reading, writing = os.pipe()
        for end in (self._reading, writing):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        for number in ASKING:
            if number == signal.SIGUSR1 or signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, lambda *_: None)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # ends a wait early
        self.count = 0

    def wait(self, seconds: float) -> int:
        """Waits until the time is up, a signal arrives or a child ends, and returns the number of new requests."""
        select.select([self._reading], [], [], seconds)
        numbers = b""
        with contextlib.suppress(BlockingIOError):
            numbers = os.read(self._reading, 64)
        new = sum(number in ASKING for number in numbers)
        self.count += new
        return new

    @property
    def is_orphan(self) -> bool:
        """Whether the parent has ended."""
        return self._parent is not None and os.getppid() != self._parent
