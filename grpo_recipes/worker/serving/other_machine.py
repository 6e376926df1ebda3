"""The trainer's side of a vLLM server on its own machine."""

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

# What a vLLM server with a machine of its own tells the trainers, in a file of the run folder that they share.


NOTICE_FILE = "vllm_server.json"
State = Literal["starting", "up", "failed", "lost", "stopped", "done"]


@dataclass(frozen=True, slots=True)
class Notice:
    """How the server stands.

    state: starting and up; failed: it did not come up; lost: it died after that; stopped: it was asked to; done: the
    training had ended. attempt: differs at each start. url: None until it is up. reason: of failed, lost and stopped.
    findings: why it failed, as data.
    """

    state: State
    attempt: str
    url: str | None = None
    reason: str | None = None
    findings: tuple[dict[str, Any], ...] = ()

    @property
    def has_ended(self) -> bool:
        """Whether there is no server any more."""
        return self.state not in ("starting", "up")


def put_up(folder: Path, notice: Notice) -> None:
    """Replaces the notice. Raises OSError."""
    write_whole(folder, NOTICE_FILE, json.dumps(asdict(notice), indent=2, ensure_ascii=False) + "\n")


def notice_in(folder: Path) -> Notice | None:
    """The notice, None if it is missing or unreadable."""
    try:
        return Notice(**cast("dict[str, Any]", read_json(folder, NOTICE_FILE)))
    except (OSError, ValueError, TypeError):
        return None


_POLL_S = 0.5
# Where the server itself gives up, it says so; the trainers give it time for that.
_LONGER_S = 30.0


def wait_for_server(plan: Plan, folder: Path) -> None:
    """Waits in each process until the server of the run's own machine can work; returns at once without such a server.

    Afterwards the environment says where it is, lets no proxy be asked for it, and has TRL open the group in which the
    weights are handed over at the address that faces it. Raises ServerProblem when it does not come up within
    vllm_server.startup_timeout, ServerLost when it goes away meanwhile.
    """
    planned = None if plan.vllm is None else plan.vllm.server
    if planned is None or not planned.own_node:
        return
    is_first = os.environ.get("RANK", "0") == "0"
    if is_first:
        print("waiting for the vLLM server, which has a machine of its own", flush=True)
    url = _url(folder, planned.startup_timeout + _LONGER_S)
    if is_first:
        print(f"the vLLM server answers at {url}", flush=True)
    host = str(urlsplit(url).hostname)
    os.environ[URL] = url
    os.environ["VLLM_HOST_IP"] = address_towards(host)
    for name in ("NO_PROXY", "no_proxy"):
        os.environ[name] = ",".join(filter(None, (os.environ.get(name), host)))


def loss_of_server(folder: Path, problem: BaseException | None = None) -> str | None:
    """How the server of another machine was lost, None while it answers and for a run without one.

    problem: what ended the training, which is TRL's own word for it where the server is lost.
    """
    if isinstance(problem, ServerLost):
        return str(problem)
    notice = notice_in(folder)
    if notice is None or notice.url is None or os.environ.get(URL) is None:
        return None
    if notice.has_ended:
        return f"the vLLM server {notice.reason or 'has ended'}"
    return None if health.is_healthy(notice.url) else f"the vLLM server at {notice.url} does not answer any more"


def _url(folder: Path, patience_s: float) -> str:
    """Where the server is. A notice of its end counts from the time on that this process waits: an older one is that
    of an earlier server."""
    first = seen = notice_in(folder)
    give_up = time.monotonic() + patience_s
    while True:
        notice = notice_in(folder)
        if notice is not None and notice.state == "up" and notice.url and health.is_healthy(notice.url):
            return notice.url
        if notice is not None and notice.has_ended and notice != first:
            raise _ended(notice)
        if notice is not None and (seen is None or notice.attempt != seen.attempt):
            seen, give_up = notice, time.monotonic() + patience_s
        if time.monotonic() > give_up:
            raise _in_vain(folder, notice, patience_s)
        time.sleep(_POLL_S)


def _ended(notice: Notice) -> Exception:
    if notice.state == "failed":
        findings = [of_record(one) for one in notice.findings]
        return (
            ServerProblem(*findings)
            if findings
            else ServerProblem.of(notice.reason or "the vLLM server did not come up")
        )
    return ServerLost(f"the vLLM server {notice.reason or 'has ended'}")


def _in_vain(folder: Path, notice: Notice | None, patience_s: float) -> ServerProblem:
    if notice is None:
        because = f"there is no {NOTICE_FILE} in {folder}, in which it says where it is"
    elif notice.has_ended:
        because = f"its last word was: {(notice.reason or notice.state).splitlines()[0]}"
    elif notice.url is None:
        because = "it is still starting"
    else:
        because = f"it says that it is up at {notice.url}, where nobody answers this machine"
    return ServerProblem.of(
        f"no vLLM server after {patience_s:.0f} seconds",
        because=because,
        fix="start it on its machine with launch.sh --server, in this folder on a disk that all machines share",
    )


class Wishes:
    """How often it was asked to stop.

    parent: the process whose death asks as well, None where it may end before. An ignored signal stays ignored, as
    nohup wants it; SIGUSR1 does not, which launch.sh ignores for the programs that would die of it.
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
        """Waits, less long when a signal comes or a child ends, and returns the wishes that came meanwhile."""
        select.select([self._reading], [], [], seconds)
        numbers = b""
        with contextlib.suppress(BlockingIOError):
            numbers = os.read(self._reading, 64)
        new = sum(number in ASKING for number in numbers)
        self.count += new
        return new

    @property
    def orphaned(self) -> bool:
        """Whether the parent that watched is gone."""
        return self._parent is not None and os.getppid() != self._parent
