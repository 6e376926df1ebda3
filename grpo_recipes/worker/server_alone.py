"""Runs a vLLM server on its own machine until the training on the other machines has ended."""

import os
import sys
import time
import traceback
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from grpo_recipes.contract.exits import EXIT_DONE, EXIT_FAILED, EXIT_INTERRUPTED, EXIT_STOPPED
from grpo_recipes.contract.files.folder_lock import SERVING
from grpo_recipes.contract.findings.finding import as_record
from grpo_recipes.contract.findings.findings_text import Mistake
from grpo_recipes.contract.host import processes
from grpo_recipes.contract.host.standard_streams import make_steady
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.plan_sections import VllmServer
from grpo_recipes.contract.secrets.redact import hide_secrets, redact_value
from grpo_recipes.worker._shared.planned import read_plan
from grpo_recipes.worker._shared.record import Record
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.run import begin
from grpo_recipes.worker.serving import health, server
from grpo_recipes.worker.serving.health import ServerProblem, address_towards
from grpo_recipes.worker.serving.other_machine import Notice, StopRequests, write_notice
from grpo_recipes.worker.serving.server import extend_model

_POLL_S = 0.5
_LOOK_S = 1.0
# A busy but healthy server answers within this time.
_SICK_S = 30.0
# A launcher and a terminal may both forward the same signal.
_ECHO_S = 3.0
# Trainers that were asked to stop at the same time may still have to finish a generation.
_SERVES_ON_S = 60.0


def serve_alone(folder: Path, *, address: str) -> int:
    """Serves the trainers of other machines and returns the exit code. No process is left behind.

    address: name or address of the machine of rank 0. The server listens only on this machine's address on the route to
    it, because anyone who can call the server can run code in it. vllm_server.json has its URL and how it ended. 0 the
    training has ended; 1 it did not start; 2 the run already has a server; 3 the plan has no separate server, or the
    folder has files that are not the run's; 75 it died later, or was asked to stop.
    """
    make_steady()
    parent = os.getppid() if processes.ask_before_dying() else None
    processes.adopt_orphans()
    stop_requests = StopRequests(parent)
    refused = begin(folder, None, SERVING, resumed=True)
    if refused is not None:
        return refused
    notice = Notice("starting", uuid.uuid4().hex)
    try:
        plan = read_plan(folder)
        write_notice(folder, notice)
        notice = _serve(folder, plan, _server_of(plan), address, stop_requests, notice)
        code = EXIT_DONE if notice.state == "done" else EXIT_INTERRUPTED
    except Refused as problem:
        notice, code = _notice_of_failure(notice, problem), EXIT_STOPPED
    except ServerProblem as problem:
        notice, code = _notice_of_failure(notice, problem), EXIT_FAILED
    except BaseException as problem:
        print(hide_secrets(traceback.format_exc()), file=sys.stderr, end="", flush=True)
        notice, code = (
            replace(notice, state="failed", reason=f"{type(problem).__name__}: {problem}"),
            EXIT_FAILED,
        )
    finally:
        processes.kill_all_below()
    _print_end(folder, notice)
    return code


def _notice_of_failure(notice: Notice, problem: Mistake) -> Notice:
    findings = tuple(as_record(finding) for finding in problem.findings)
    return replace(notice, state="failed", reason=str(problem), findings=findings)


def _print_end(folder: Path, notice: Notice) -> None:
    if notice.state == "done":
        print("the training has ended, and the vLLM server stops", flush=True)
    else:
        lead = "error: " if notice.state == "failed" else "the vLLM server "
        print(hide_secrets(f"{lead}{notice.reason}"), file=sys.stderr, flush=True)
    try:
        findings = tuple(cast("dict[str, Any]", redact_value(finding)) for finding in notice.findings)
        write_notice(folder, replace(notice, reason=notice.reason and hide_secrets(notice.reason), findings=findings))
    except OSError as problem:
        print(f"the trainers could not be notified: {problem}", file=sys.stderr, flush=True)


def _serve(
    folder: Path, plan: Plan, planned: VllmServer, address: str, stop_requests: StopRequests, notice: Notice
) -> Notice:
    """Runs one server from start to end, and returns the notice of how it ended."""
    asked = replace(notice, state="stopped", reason="was asked to stop before it was up")
    ended_before = Record(folder, 0).read().get("ended")
    if plan.writes_models and not extend_model(folder, stop_requests):
        return asked
    began = time.monotonic()

    def say(url: str) -> None:
        print(f"the vLLM server is starting at {url}", flush=True)

    with server.running(plan, planned, folder, stop_requests, say, address_towards(address)) as started:
        if started is None:
            return asked
        print(f"the vLLM server is up at {started.url} after {time.monotonic() - began:.0f} s", flush=True)
        notice = replace(notice, state="up", url=started.url)
        write_notice(folder, notice)
        notice = _watch(started, Record(folder, 0), stop_requests, ended_before, notice)
        if notice.state == "lost":
            print(hide_secrets(started.last_lines()), file=sys.stderr, flush=True)
        return notice


def _server_of(plan: Plan) -> VllmServer:
    planned = None if plan.vllm is None else plan.vllm.server
    if planned is None or not planned.own_node:
        raise Refused.of("plan.json has no vLLM server on a separate machine", fix="start it with launch.sh")
    return planned


def _watch(
    started: server.Server, record: Record, stop_requests: StopRequests, ended_before: object, notice: Notice
) -> Notice:
    """Waits until the training has ended, the server dies, or it is asked to stop.

    ended_before: what run.json recorded about the end of an earlier training.
    """
    stopped = replace(notice, state="stopped", reason="was asked to stop")
    asked: float | None = None
    looked = answered = time.monotonic()
    while True:
        is_new, now = stop_requests.wait(_POLL_S), time.monotonic()
        if started.has_ended():
            return replace(notice, state="lost", reason=f"{started.death()} while the run still needed it")
        if stop_requests.is_orphan or (is_new and asked is not None and now - asked > _ECHO_S):
            return stopped
        if is_new and asked is None:
            asked = now
            print(f"asked to stop: serving until training ends, for at most {_SERVES_ON_S:.0f} s", flush=True)
        if asked is not None and (now - asked > _SERVES_ON_S or record.read().get("status") != "running"):
            return stopped
        if now - looked < _LOOK_S:
            continue
        looked = now
        if record.read().get("ended") not in (None, ended_before):
            return replace(notice, state="done")
        answered = time.monotonic() if health.is_healthy(started.url) else answered
        if now - answered > _SICK_S:
            return replace(notice, state="lost", reason=f"did not answer for {_SICK_S:.0f} s")
        processes.reap(started.process, started.keeper)
