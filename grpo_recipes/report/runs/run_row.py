"""Reads what a list of runs shows about one run folder, whatever its state. Writes nothing."""

import os
import socket
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.files.bounded_json import parse_json
from grpo_recipes.contract.files.folder_files import is_file, names, read_bytes, status
from grpo_recipes.contract.files.folder_lock import TRAINING, holder
from grpo_recipes.contract.integrity.run_folder import PLAN_FILE
from grpo_recipes.contract.integrity.used_run import find_changed_files
from grpo_recipes.contract.metrics import METRICS_FILE, mapping, mappings, number, read_tail, reward_as_drawn
from grpo_recipes.contract.plan import PLAN_FORMAT
from grpo_recipes.contract.run_record import RECORD_FILE, RunRecord, deciding_set, read_record, time_shares
from grpo_recipes.contract.run_verdict import verdicts
from grpo_recipes.lock.read_lock import LARGEST_PLAN_BYTES, MOST_VALUES

_AVERAGED_STEPS = 10
_TAIL = 24 << 10
"""Bytes at the end of metrics.jsonl: ten steps of the longest lines that TRL's own figures make."""
_LONGEST_LOCK = 1 << 12
# Identified by their contents, wherever they are; files of a model are covered by its digest.
_CONTENTS = ("sha256", "commit")


class ListedRun(NamedTuple):
    """One run folder.

    status: as in run.json, or killed (running, but the process is gone), planned, never started, incomplete, "damaged
    plan" or "damaged record", which `because` explains.
    because: ids of the findings that ended it, or why one of its files cannot be read. changed: which of plan, record
    and last figures changed since grpo-run wrote them, each with the reason.
    reward: mean of the last reward_steps steps. before, after: mean held-out reward. seconds: of training, else from
    its start to its last write. at: when it started or was planned, seconds since 1970.
    values: of its plan, by the user's keys, the experiment before the machine. verdict: what a completed run means, the
    part before the colon. held_out_set: the set of before and after; "" for one without a name. time_shares: parts of a
    step and their shares, largest first.
    """

    name: str
    folder: str
    status: str
    because: tuple[str, ...]
    step: int | None
    max_steps: int | None
    reward: float | None
    reward_steps: int
    before: float | None
    after: float | None
    seconds: float | None
    at: float
    values: Mapping[str, object]
    changed: tuple[str, ...] = ()
    verdict: str = ""
    held_out_set: str = ""
    time_shares: tuple[tuple[str, float], ...] = ()


def one_run(folder: Path) -> ListedRun | None:
    """The run of a folder, None if it has neither a plan nor launch.sh. Raises OSError."""
    planned = status(folder, PLAN_FILE)
    recorded = status(folder, RECORD_FILE)
    if planned is None and not is_file(folder, "launch.sh"):
        return None
    values, plan_fault = _values(folder) if planned is not None else ({}, f"{PLAN_FILE} is missing")
    record = read_record(str(folder)) if recorded is not None else None
    last, unreadable = _last_events(folder) if record is not None else ([], ())
    rewards = _rewards(last)[-_AVERAGED_STEPS:]
    known = record or RunRecord()
    word, because = _status(folder, record, recorded is not None, plan_fault)
    steps = [known.step or 0, *(int(step) for event in last[-1:] if (step := number(event, "step")) is not None)]
    before, after = (number(mapping(known.evaluation, when), "reward") for when in ("before", "after"))
    started = instant(known.started)
    written = (planned or recorded or os.stat(folder)).st_mtime
    return ListedRun(
        name=folder.name,
        folder=str(folder),
        status=word,
        because=because,
        step=None if record is None or known.step is None else max(steps),
        max_steps=known.max_steps if known.max_steps is not None else _whole(values.get("training.max_steps")),
        reward=sum(rewards) / len(rewards) if rewards else reward_as_drawn(known.metrics),
        reward_steps=len(rewards) or int(reward_as_drawn(known.metrics) is not None),
        before=before,
        after=after,
        seconds=_seconds(known, started, last),
        at=written if started is None else started,
        values=values,
        changed=(*map(str, find_changed_files(folder)), *unreadable),
        held_out_set=deciding_set(known.evaluation),
        time_shares=tuple(time_shares(known)),
        verdict=next((verdict.text for verdict in verdicts(known)), ""),
    )


def _status(folder: Path, record: RunRecord | None, is_there: bool, plan_fault: str | None) -> tuple[str, Any]:
    if not is_there and not (is_file(folder, PLAN_FILE) and is_file(folder, "launch.sh")):
        return "incomplete", ()
    if plan_fault is not None:
        return "damaged plan", (plan_fault,)
    if record is None:
        return ("damaged record", (f"{RECORD_FILE} cannot be read",)) if is_there else ("planned", ())
    if record.status == "running" and not record.is_queued_work and is_gone(folder):
        return "killed", ()
    ids = [finding.get("id") for finding in mappings(record.findings)]
    return record.status, tuple(dict.fromkeys(rule_id for rule_id in ids if isinstance(rule_id, str) and rule_id))


def is_gone(folder: Path) -> bool:
    """Whether the training process on this machine is gone; False for a different machine, where that is unknown."""
    try:
        content = parse_json(read_bytes(folder, TRAINING, _LONGEST_LOCK))
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and content.get("host") == socket.gethostname() and holder(folder) is None


def _values(folder: Path) -> tuple[dict[str, object], str | None]:
    """The values of a plan, or why it cannot be read.

    Reads the plan as plain data: a thousand take one second, with the plan's classes ten.
    """
    try:
        content = read_bytes(folder, PLAN_FILE, LARGEST_PLAN_BYTES)
        if content.count(b",") > MOST_VALUES:
            raise ValueError(f"it has more than {MOST_VALUES:,} values")
        plan = parse_json(content)
        if not isinstance(plan, dict) or plan.get("plan") != PLAN_FORMAT or not isinstance(plan.get("settings"), list):
            raise ValueError("it is not a plan of this release")
    except OSError as problem:
        return {}, f"{PLAN_FILE}: {problem.strerror or problem}"
    except ValueError as problem:
        return {}, f"{PLAN_FILE}: {str(problem).splitlines()[0]}"
    by_kind: dict[str, dict[str, object]] = {"experiment": {}, "machine": {}}
    for row in plan["settings"]:
        if isinstance(row, dict) and (values := by_kind.get(str(row.get("kind")))) is not None:
            # Values without a recipe key follow from others, except for the machine.
            key = row.get("recipe_key") or row.get("key")
            if isinstance(key, str) and (row.get("recipe_key") or key.startswith("world.")):
                values[key] = row.get("value")
    digests = {
        f"{section}.{name}": part[name]
        for section, part in _contents(plan)
        if isinstance(part, dict)
        for name in _CONTENTS
        if isinstance(part.get(name), str)
    }
    smoke = {"smoke": True} if plan.get("smoke") is True else {}
    return {**by_kind["experiment"], **digests, **by_kind["machine"], **smoke}, None


def _contents(plan: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """The parts of a plan that have a digest or a commit, by the recipe's sections."""
    yield "model", plan.get("model")
    sources = plan.get("sources")
    mixed = [source for source in sources if isinstance(source, dict)] if isinstance(sources, list) else []
    yield from ((f"datasets.{source.get('source_name')}", source) for source in mixed)
    if not mixed:
        yield "dataset", plan.get("data")


def _last_events(folder: Path) -> tuple[list[Mapping[str, object]], tuple[str, ...]]:
    """The last events of metrics.jsonl that cover the rewards of the last steps, and its faults."""
    events: list[Mapping[str, object]] = []
    unreadable: tuple[str, ...] = ()
    for event in read_tail(folder, METRICS_FILE, _TAIL):
        if event is None:
            unreadable = (f"{METRICS_FILE} has a line that is not an event",)
        else:
            events.append(event)
        if len(events) >= _AVERAGED_STEPS and len(_rewards(events)) >= _AVERAGED_STEPS:
            break
    return events[::-1], unreadable


def _rewards(events: list[Mapping[str, object]]) -> list[float]:
    """The rewards of steps that generated completions."""
    rewards = (reward_as_drawn(event) for event in events if event.get("event") == "step")
    return [reward for reward in rewards if reward is not None]


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _seconds(record: RunRecord, started: float | None, last: list[Mapping[str, object]]) -> float | None:
    if record.train_wall_s is not None:
        return number({"s": record.train_wall_s}, "s")
    ended = instant(record.ended)
    if ended is None and last:
        ended = number(last[-1], "time")
    return None if started is None or ended is None or ended < started else ended - started


def instant(text: str | None) -> float | None:
    """A time of run.json as seconds since 1970, None if it is not one."""
    try:
        return None if text is None else datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError, OSError):
        return None


MOST_RUNS = 100_000


class Runs(NamedTuple):
    """The runs in a folder. runs: newest first. others: folders that are not runs or cannot be read, by name with the
    reason.
    """

    folder: str
    runs: list[ListedRun]
    others: Mapping[str, str]


def read_runs(folder: str) -> Runs:
    """The runs in a folder, or the folder itself if it is one. Raises Refusal if it cannot be listed."""
    root = Path(folder)
    if is_file(root, PLAN_FILE) and is_file(root, "launch.sh"):
        here = Path(os.path.abspath(folder))
        listed = [(here.name, here)]
    else:
        listed = [(name, root / name) for name in _folders(folder)]
    runs, others = [], {}
    for name, path in listed:
        try:
            run = one_run(path)
        except OSError as problem:
            others[name] = f"it cannot be read: {problem.strerror or problem}"
            continue
        if run is None:
            others[name] = "a sweep, which contains its runs" if is_file(path, "sweep.json") else "it has no plan.json"
        else:
            runs.append(run)
    return Runs(folder, sorted(runs, key=lambda run: (-run.at, run.name)), others)


def _folders(folder: str) -> list[str]:
    """The visible folders in a folder, including links to folders."""
    try:
        os.stat(folder)
        folders = [name for name in names(Path(folder)) if not name.startswith(".")]
    except OSError as problem:
        raise Refusal.of(
            f"{folder} cannot be listed",
            because=str(problem.strerror or problem),
            fix="name a folder of run folders; a run without --out is in runs/",
        ) from None
    folders = [name for name in folders if os.path.isdir(os.path.join(folder, name))]
    if len(folders) > MOST_RUNS:
        raise Refusal.of(f"{folder} holds more than {MOST_RUNS:,} folders", fix="name one with fewer runs")
    return folders
