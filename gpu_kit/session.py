"""Runs stages one after another in separate processes within a time budget; a failure does not stop the rest."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from gpu_kit.result import Result, Results, Status
from gpu_kit.stages.catalog import STAGES, Stage
from gpu_kit.trained import ROOT, environment

MARK = "GPU_KIT_STAGE"
VISIBLE = "CUDA_VISIBLE_DEVICES"
KEPT = (".json", ".jsonl", ".yaml", ".log")
LEAST_S = 45
"""A stage is not started with less time left, or less than its limit if that is shorter."""
RECORD_S = 5.0
"""How often the figures of a running stage are written."""
_END_S = 10
_SAID = 3000


@dataclass(frozen=True, slots=True)
class Session:
    """The folders and inputs of stages, and where results go.

    older: packages of an older stack, None without. keep: do not delete the runs' weights and checkpoints.
    """

    work: Path
    out: Path
    older: Path | None = None
    keep: bool = False

    @property
    def file(self) -> Path:
        """The single file with all results."""
        return self.out / "results.json"


def run_stages(
    session: Session,
    results: Results,
    names: Sequence[str],
    seconds: float,
    print_line: Callable[[str], None],
    beside: int = 1,
) -> None:
    """Runs these stages in order and writes the results after each, and every few seconds what a running one has.

    seconds: for all of them; a stage that does not fit is left out. beside: how many stages run at the same time; those
    that measure time or use all memory run alone, after the others.
    """
    end = time.monotonic() + seconds
    alone = [name for name in names if STAGES[name].alone] if beside > 1 else names
    together = [name for name in names if name not in alone]

    def run(name: str, at_once: int) -> tuple[str, Result]:
        def record_running(result: Result) -> None:
            result.beside = at_once
            record(name, result)

        result = _one(session, results.device, name, STAGES[name], end - time.monotonic(), record_running)
        result.beside = at_once
        return name, result

    lock = Lock()

    def record(name: str, result: Result) -> None:
        with lock:
            results.add(name, result)
            results.write(session.file)

    def keep(name: str, result: Result) -> None:
        record(name, result)
        print_line(line_of(name, result))

    with ThreadPoolExecutor(beside) as pool:
        for ended in as_completed([pool.submit(run, name, beside) for name in together]):
            keep(*ended.result())
    for name in alone:
        keep(*run(name, 1))


def _one(
    session: Session, device: str, name: str, stage: Stage, left: float, record_running: Callable[[Result], None]
) -> Result:
    if left < min(stage.limit_s, LEAST_S):
        return Result("left out", reason=f"{max(0, left):.0f} s were left")
    folder = session.work / "stages" / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    began = time.monotonic()

    def unfinished(status: Status) -> Result:
        result = _found(folder) or Result(status)
        spent = time.monotonic() - began
        result.status, result.reason, result.seconds = status, f"ended after {spent:.0f} s", round(spent, 1)
        return result

    code, said = _ended(
        session,
        device,
        name,
        folder,
        min(stage.limit_s, left),
        visible_gpus(stage.gpus),
        lambda: record_running(unfinished("cut off")),
    )
    found = _found(folder) or Result("failed")
    if code is None:
        found = unfinished("late" if left > stage.limit_s else "cut off")
    elif code:
        found.status, found.reason = "failed", f"its process ended with {code}"
    if found.status != "passed":
        found.said = said[-_SAID:]
    found.seconds = round(time.monotonic() - began, 1)
    if not session.keep:
        _tidy(folder)
    return found


def visible_gpus(gpus: int | None) -> dict[str, str]:
    """Returns the variable that limits a process to this many of the visible GPUs; CUDA uses as many as exist."""
    if gpus is None:
        return {}
    here = os.environ.get(VISIBLE)
    every = [*map(str, range(gpus))] if here is None else here.split(",")
    return {VISIBLE: ",".join(every[:gpus])}


def _ended(
    session: Session,
    device: str,
    name: str,
    folder: Path,
    limit_s: float,
    variables: dict[str, str],
    record_running: Callable[[], None],
) -> tuple[int | None, str]:
    """Returns the exit code of a stage's process, None if it took too long, and its output."""
    words = [sys.executable, "-m", "gpu_kit.one_stage", name, str(session.work), device]
    words += [str(session.older)] if session.older else []
    log = folder / "stage.log"
    mark = f"{name}-{os.getpid()}-{time.time_ns()}"
    with log.open("w") as output:
        process = subprocess.Popen(
            words,
            cwd=ROOT,
            env=environment(**variables, **{MARK: mark}),
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            code = _wait(process, limit_s, record_running)
        finally:
            end_marked(mark)
            process.wait()
    return code, log.read_text(errors="replace")


def _wait(process: subprocess.Popen[bytes], limit_s: float, record_running: Callable[[], None]) -> int | None:
    """Returns the exit code, None after the limit. A command that is killed meanwhile leaves what was recorded."""
    end = time.monotonic() + limit_s
    while (left := end - time.monotonic()) > 0:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(min(RECORD_S, left))
        record_running()
    return None


def end_marked(mark: str) -> None:
    """Ends a stage's remaining processes, found by its mark, with SIGTERM and, a few seconds later, SIGKILL."""
    end = time.monotonic() + _END_S
    for number in (signal.SIGTERM, signal.SIGKILL):
        left = _marked(mark)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        while left and (left := _marked(mark)) and number == signal.SIGTERM and time.monotonic() < end:
            time.sleep(0.1)


def _marked(mark: str) -> list[int]:
    found = []
    for place in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"{MARK}={mark}".encode() in place.read_bytes().split(b"\0"):
                found.append(int(place.parent.name))
    return found


def _found(folder: Path) -> Result | None:
    """Reads what a stage recorded, even if it was killed; None if it recorded nothing."""
    with contextlib.suppress(OSError, ValueError):
        return Result(**json.loads((folder / "result.json").read_text()))
    return None


def _tidy(folder: Path) -> None:
    """Deletes files that are not needed: a stage's weights can fill the disk that the next one needs."""
    for place in folder.rglob("*"):
        if place.is_file() and not place.is_symlink() and place.suffix not in KEPT:
            place.unlink()


def line_of(name: str, result: Result) -> str:
    """Formats a stage in one line."""
    more = "; ".join(filter(None, [result.reason.strip().splitlines()[-1] if result.reason else "", *result.wrong]))
    return f"{name:14} {result.status:8} {result.seconds:6.1f} s  {more}".rstrip()
