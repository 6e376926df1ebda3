"""Runs a vLLM server and the training that uses it, until the last process has ended. train.sh starts the trainer."""

import os
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grpo_recipes.contract.event_words import server_line
from grpo_recipes.contract.exits import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_STOPPED
from grpo_recipes.contract.files.folder_files import open_to_append, remove
from grpo_recipes.contract.files.folder_lock import SERVING
from grpo_recipes.contract.findings.finding import mistake
from grpo_recipes.contract.findings.findings_text import Mistake
from grpo_recipes.contract.host import processes
from grpo_recipes.contract.host.standard_streams import make_steady
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.plan_sections import VllmServer
from grpo_recipes.worker._shared.metrics import append_event
from grpo_recipes.worker._shared.planned import read_plan
from grpo_recipes.worker._shared.record import Record
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.run import begin, refuse_checkpoints
from grpo_recipes.worker.serving import health, server
from grpo_recipes.worker.serving.health import URL, ServerProblem
from grpo_recipes.worker.serving.other_machine import StopRequests
from grpo_recipes.worker.serving.server import extend_model, visible
from grpo_recipes.worker.survival.folder_faults import explain_fault


class ServerEvents:
    """Records the server's state: in run.json while no trainer writes it, otherwise as events in metrics.jsonl."""

    def __init__(self, folder: Path, record: Record, *, resumed: bool) -> None:
        self._metrics = folder / "metrics.jsonl"
        self._record = record
        if not resumed:
            remove(folder, self._metrics.name)  # left by an attempt that trained nothing
            record.update(vllm_server={"restarts": []})
        server = record.read().get("vllm_server")
        restarts = server.get("restarts") if isinstance(server, dict) else None
        self._deaths: list[dict[str, Any]] = restarts if isinstance(restarts, list) else []

    def record_death(self, how: str, restart: int, of: int) -> None:
        """Records that the server died and is restarted; restart: its number, of the allowed `of`."""
        death = {"time": round(time.time(), 3), "step": self._record.read().get("step"), "how": how}
        self._deaths.append(death)
        self._record.reopen(vllm_server={"restarts": list(self._deaths)})
        self.tell("died", how=how, restart=restart, of=of)

    def is_failure(self) -> bool:
        """Whether the trainer ended without its own reason to stop."""
        return self._record.read().get("status") in ("running", "failed")

    def tell(self, state: str, **values: Any) -> None:
        """Records that the server is starting, up with its url, or dead."""
        step = self._record.read().get("step") or 0
        event = {"state": state, **values}
        print(server_line(event), flush=True)
        file = open_to_append(self._metrics.parent, self._metrics.name)
        try:
            append_event(file, self._metrics, "server", step, event)
        finally:
            os.close(file)


_POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class Run:
    """The parts of a run that stay the same when the server is restarted."""

    folder: Path
    plan: Plan
    planned: VllmServer
    story: ServerEvents
    stop_requests: StopRequests


def serve(folder: Path, *, resume: bool) -> int:
    """Starts the server, trains with it and returns the run's exit code. No process is left behind.

    0 done; 1 the trainer failed, or the server did not start or died too often; 3 a check stopped it; 75 interrupted by
    a signal. run.json has the reason, as from the worker.
    """
    make_steady()
    parent = os.getppid() if processes.ask_before_dying() else None
    processes.adopt_orphans()
    stop_requests = StopRequests(parent)
    record = Record(folder, 0)
    refused = begin(folder, record, SERVING, resumed=resume)
    if refused is not None:
        return refused
    story = ServerEvents(folder, record, resumed=resume)
    try:
        plan = read_plan(folder)
        refuse_checkpoints(folder, resume=resume)
        if plan.vllm is None or plan.vllm.server is None:
            raise Refused.of("plan.json has no vLLM server", fix="start with launch.sh of the run folder")
        code = _serve(Run(folder, plan, plan.vllm.server, story, stop_requests), resume=resume)
    except Refused as problem:
        code = _end_with(record, "stopped", EXIT_STOPPED, problem)
    except ServerProblem as problem:
        code = _end_with(record, "failed", EXIT_FAILED, problem)
    except BaseException as problem:
        why = explain_fault(problem, record.same)
        if why is None:
            traceback.print_exc()
        code = _end_with(record, "failed", EXIT_FAILED, why or f"{type(problem).__name__}: {problem}")
    finally:
        processes.kill_all_below()
    if code is None:
        record.end("interrupted", EXIT_INTERRUPTED, "ended by a signal before the worker had saved")
    return EXIT_INTERRUPTED if code is None else code


def _end_with(record: Record, status: str, code: int, problem: Mistake | str) -> int:
    record.end(status, code, problem, last_word=True)
    print(f"error: {problem}", file=sys.stderr, flush=True)
    return code


def _serve(run: Run, *, resume: bool) -> int | None:
    """Returns the training's exit code, None if it was asked to stop while it could not save."""
    if run.plan.writes_models and not extend_model(run.folder, run.stop_requests):
        return None
    story, restarts = run.story, 0
    while True:
        began = time.monotonic()
        with server.running(
            run.plan, run.planned, run.folder, run.stop_requests, lambda _: story.tell("starting")
        ) as started:
            if started is None:
                return None
            story.tell("up", url=started.url, seconds=round(time.monotonic() - began, 1))
            code, death = _train(run, started, resume=resume)
        if death is None or run.stop_requests.count or run.stop_requests.is_orphan:
            return code
        if restarts == run.planned.max_restarts:
            times = "" if restarts == 0 else f" {restarts + 1} times"
            raise ServerProblem(
                mistake(
                    f"the vLLM server died{times}: it {death}",
                    because=f"vllm_server.max_restarts is {restarts}",
                    more=f"{server.LOG_FILE} in the run folder",
                )
            )
        restarts += 1
        resume = any((run.folder / "checkpoints").glob("checkpoint-*"))
        story.record_death(death, restarts, run.planned.max_restarts)


def _train(run: Run, started: server.Server, *, resume: bool) -> tuple[int | None, str | None]:
    """Trains once with a server; returns the exit code, and how the server died, if it did."""
    trainer = _trainer(run, started.url, ["--resume"] if resume else [])
    while trainer.poll() is None:
        asked = run.stop_requests.wait(_POLL_S)
        if run.stop_requests.is_orphan or (asked and run.stop_requests.count > 1):
            processes.kill(trainer, spared=started.process.pid)
            return None, None
        if asked:
            # torchrun kills its ranks 30 seconds after a SIGTERM; signalled directly they have as long as they need to
            # save.
            below = processes.ranks(processes.descendants(os.getpid()))
            processes.send(below or [trainer.pid], signal.SIGTERM)
        if started.has_ended() and not run.stop_requests.count:  # after a stop request it may still be saving
            processes.kill(trainer, spared=started.process.pid)
            return None, started.death()
        processes.reap(trainer, started.process, started.keeper)
    code = trainer.returncode if trainer.returncode >= 0 else 128 - trainer.returncode
    if code and run.story.is_failure() and not health.is_healthy(started.url):
        return code, started.death() if started.has_ended() else "stopped answering"
    return code, None


def _trainer(run: Run, url: str, arguments: list[str]) -> subprocess.Popen[bytes]:
    """Starts the trainer with the server's address and the remaining GPUs."""
    on_gpus = run.plan.world.device == "cuda"
    gpus = visible(range(run.plan.world.num_processes)) if on_gpus else {}
    # A site's proxy must not be used for the server on this machine.
    direct = {name: ",".join(filter(None, (os.environ.get(name), "127.0.0.1"))) for name in ("NO_PROXY", "no_proxy")}
    return subprocess.Popen(
        ["bash", str(run.folder / "train.sh"), *arguments],
        env={**os.environ, **direct, **gpus, URL: url},
        stdin=subprocess.DEVNULL,
        preexec_fn=processes.die_with_parent,
    )
