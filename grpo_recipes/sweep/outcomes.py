"""What the runs of a sweep came to: the held-out reward, or the last training rewards where nothing is held out."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from grpo_recipes.contract.files.bounded_json import parsed, read_json
from grpo_recipes.contract.files.folder_files import read_bytes
from grpo_recipes.contract.metrics import METRICS_FILE, number, read_all
from grpo_recipes.contract.run_record import RunRecord, read_record
from grpo_recipes.lock.read_lock import LARGEST_PLAN_BYTES, PLAN_FILE
from grpo_recipes.report.runs.one_run import one_run
from grpo_recipes.sweep.sweep_file import Sweep, SweepRun
from grpo_recipes.sweep.verdicts import Sample

HELD_OUT = "held-out reward after the last step"
TRAINING = "mean training reward of the last tenth of the steps"
_SHARE = 10
_LARGEST_ROWS = 64 << 20


class SweptRun(NamedTuple):
    """A run of a sweep as it stands. status: as `grpo-run runs` has it, "missing" where its folder is gone.

    because: the ids of what ended it. sample: of one that completed, None where its outcome is not known.
    """

    run: SweepRun
    status: str
    because: tuple[str, ...]
    sample: Sample | None


class Outcomes(NamedTuple):
    """All runs of a sweep. measure: what the outcome is, None as long as no run has one."""

    measure: str | None
    runs: tuple[SweptRun, ...]


def outcomes(folder: Path, sweep: Sweep) -> Outcomes:
    """How each run of a sweep stands and what it came to; the same measure for all. Nothing is written."""
    found = {run: _standing(folder / run.name) for run in sweep.runs}
    records = {run: read_record(str(folder / run.name)) for run in sweep.runs if found[run][0] == "completed"}
    is_held_out = bool(records) and all(record and _held_out(record) is not None for record in records.values())
    samples = {
        run: _held_out_sample(folder / run.name, record) if is_held_out else _training_sample(folder / run.name, record)
        for run, record in records.items()
        if record is not None
    }
    measure = None if not any(samples.values()) else HELD_OUT if is_held_out else TRAINING
    return Outcomes(measure, tuple(SweptRun(run, *found[run], samples.get(run)) for run in sweep.runs))


def _standing(folder: Path) -> tuple[str, tuple[str, ...]]:
    try:
        run = one_run(folder)
    except OSError as problem:
        return "missing", (str(problem.strerror or problem),)
    return ("missing", ()) if run is None else (run.status, run.because)


def _held_out(record: RunRecord) -> float | None:
    after = record.evaluation.get("after")
    return number(after, "reward") if isinstance(after, Mapping) else None


def _held_out_sample(folder: Path, record: RunRecord) -> Sample:
    reward = _held_out(record)
    assert reward is not None
    after = cast("Mapping[str, object]", record.evaluation["after"])
    rows = _rows(folder, number(after, "step"))
    # Rows without any reward are not in the mean, and then the rows say something else than it does.
    agrees = bool(rows) and math.isclose(math.fsum(rows) / len(rows), reward, rel_tol=1e-6, abs_tol=1e-9)
    return Sample(reward, rows if agrees else ())


def _rows(folder: Path, step: float | None) -> tuple[float, ...]:
    """The reward of each held-out row, as its evaluation adds them up; () where that cannot be known."""
    try:
        plan = cast("dict[str, Any]", read_json(folder, PLAN_FILE, LARGEST_PLAN_BYTES))
        weights = {str(one["name"]): float(one["weight"]) for one in plan["rewards"]}
        lines = read_bytes(folder, f"evaluation/step-{step:.0f}.jsonl", _LARGEST_ROWS).splitlines()
        rewards = [cast("dict[str, Any]", parsed(line))["rewards"] for line in lines]
        return tuple(
            math.fsum(weights.get(name, 1.0) * float(value) for name, value in row.items() if value is not None)
            for row in rewards
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return ()


def _training_sample(folder: Path, record: RunRecord) -> Sample | None:
    """The mean over the last tenth of the steps that tell a reward, at least one of them."""
    events = read_all(str(folder / METRICS_FILE))
    # A resumed run has the events of its earlier attempts too; the last one of a step counts.
    by_step = {
        step: reward
        for event in events
        if event.get("event") == "step"
        and (step := number(event, "step")) is not None
        and (reward := number(event, "reward")) is not None
    }
    if not by_step:
        return None
    last = max(by_step)
    rewards = [reward for step, reward in by_step.items() if step > last - last / _SHARE] or [by_step[last]]
    return Sample(math.fsum(rewards) / len(rewards))
