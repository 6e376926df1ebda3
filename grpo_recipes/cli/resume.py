"""`grpo-run RUNDIR --resume`: continues an interrupted run exactly as planned."""

import contextlib
import json
import os
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from grpo_recipes.cli.launching import ask_trust, launch_run, names_a_plan
from grpo_recipes.cli.options import RunOptions
from grpo_recipes.cli.rerun import plan_again, plan_to_launch, say, stack_of
from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.plan import Plan, to_json
from grpo_recipes.contract.run_record import RunRecord
from grpo_recipes.engines.base import engine_of
from grpo_recipes.launch.local import refuse_strange_entries
from grpo_recipes.launch.progress import View
from grpo_recipes.launch.summary import status_line
from grpo_recipes.lock.read_lock import Lock, read_lock
from grpo_recipes.render.rerendered import write_again
from grpo_recipes.report.runs.run_row import is_gone
from grpo_recipes.trust.user_code import user_files, with_changed

STARTED_WITH = ("world", "arguments", "shims", "deepspeed", "environment")
UNTOLD = ("verified", "folder", "recipe_file", "accept_drift", "memory")
"""Parts of plan.json whose changes are not reported. memory is an estimate, which a preflight improves."""
_SHOWN = 6
_DEPTH = 3


def resume(folder: str, asked: RunOptions, view: View) -> int:
    """Continues from the newest complete checkpoint. Raises Refusal for a run that cannot be resumed."""
    if asked.is_of_a_recipe or asked.out or asked.extending:
        raise Refusal.of(
            "--resume continues the plan unchanged",
            fix="it only takes --allow-code, --accept-drift, --json, --samples, -q and -v",
        )
    if not names_a_plan(folder) and os.path.isfile(folder):
        raise _recipe_instead(folder)
    lock = read_lock(folder)
    refuse_strange_entries(lock.folder)
    if lock.record is not None and lock.record.status == "completed":
        raise Refusal.of(
            f"{folder} is finished",
            fix=f"grpo-run {shlex.quote(folder)} trains the same plan again; --extend training.max_steps=N continues"
            " to step N",
        )
    if engine_of(lock.plan).is_active(lock.folder):
        return launch_run(lock.plan, lock.folder, as_json=asked.as_json, follow=True, view=view)
    asked = asked._replace(strict=False)
    again = plan_again(lock, stack_of(lock.plan), asked)
    if lock.record is not None or again.plan is None or any(line.state != "same" for line in again.lines):
        say(again)  # nothing to report about an unchanged run that was never started
    plan = plan_to_launch(again, asked)
    _refuse_another_start(folder, lock.plan, plan)
    ask_trust(plan, asked.allowed, folder=lock.folder)
    as_written = _as_written(plan, lock)

    def prepare() -> list[str]:
        """Runs while the folder is locked."""
        changes = list(_differences(lock.plan, as_written))
        return write_again(
            plan, lock.folder, as_written=as_written, changes=changes, scripts=engine_of(plan).files(as_written)
        )

    return launch_run(plan, lock.folder, as_json=asked.as_json, resume=True, view=view, prepare=prepare)


def _as_written(plan: Plan, lock: Lock) -> Plan:
    """The plan for plan.json, with the original paths of the user's files, which the folder has copies of."""
    known = {(file.target, file.sha256): file.path for file in user_files(lock.plan)}
    as_before = with_changed(plan, lambda file: {"path": known.get((file.target, file.sha256), file.path)})
    return replace(as_before, folder=lock.folder)


def _differences(old: Plan, new: Plan) -> Iterator[str]:
    """The values that differ from plan.json, except those of this launch."""
    was, now = json.loads(to_json(old)), json.loads(to_json(new))
    for part in now:
        if part not in UNTOLD:
            yield from _unequal(part, was[part], now[part], _DEPTH)


def _unequal(name: str, was: object, now: object, depth: int) -> Iterator[str]:
    if depth and isinstance(was, dict) and isinstance(now, dict):
        for key in dict.fromkeys([*was, *now]):
            yield from _unequal(f"{name}.{key}", was.get(key), now.get(key), depth - 1)
    elif json.dumps(was) != json.dumps(now):  # true is not 1
        yield name


def _recipe_instead(recipe: str) -> Refusal:
    """The error for a recipe instead of a run folder, listing its runs in runs/, the default folder, and here."""
    runs = _runs_of(recipe)
    because = [f"{folder}: {words}" for folder, words in [*runs.items()][:_SHOWN]] or [
        "none of its runs is in a folder here, or in runs/"
    ]
    cut_off, failed = (
        [folder for folder, words in runs.items() if words.startswith(ends)]
        for ends in (("interrupted", "killed", "running"), ("failed", "stopped"))
    )
    if cut_off or failed:
        fix = f"grpo-run {shlex.quote([*cut_off, *failed][0])} --resume"
    elif runs:
        fix = f"none of these runs can be resumed; grpo-run {shlex.quote(recipe)} starts a new one"
    else:
        fix = "grpo-run RUNDIR --resume, with the folder that the run printed"
    return Refusal.of(f"{recipe} is a recipe, but --resume needs a run folder", because=because, fix=fix)


def _runs_of(recipe: str) -> dict[str, str]:
    """The status of each run of a recipe, in runs/ or a folder here, newest first, by folder."""
    statuses = {}
    plans = [plan for folder in ("runs", ".") for plan in Path(folder).glob("*/plan.json") if plan.is_file()]
    for plan in sorted(plans, key=lambda plan: os.path.getmtime(plan) if plan.is_file() else 0.0, reverse=True):
        with contextlib.suppress(Refusal, OSError):
            lock = read_lock(str(plan))
            if lock.plan.recipe_file == os.path.abspath(recipe):
                statuses[str(plan.parent)] = _standing(plan.parent, lock.record)
    return statuses


def _standing(folder: Path, record: RunRecord | None) -> str:
    if record is None:
        return "planned, but not started"
    is_killed = record.status == "running" and is_gone(folder)
    return status_line(replace(record, status="killed") if is_killed else record)


def _refuse_another_start(folder: str, old: Plan, new: Plan) -> None:
    """Raises Refusal if the recipe would now give a different plan than the run's."""
    changed = list(_differing_keys(json.loads(to_json(old)), json.loads(to_json(new))))
    if changed:
        again = f"grpo-run {shlex.quote(folder)} --out FOLDER"
        raise Refusal.of(
            f"{folder}: the run cannot be resumed here",
            because=f"{', '.join(changed[:_SHOWN])} would differ from its plan.json",
            fix=f"resume it where it was started, or {again} for a new run of the same plan",
        )


def _differing_keys(old: dict[str, dict[str, object]], new: dict[str, dict[str, object]]) -> Iterator[str]:
    for part in STARTED_WITH:
        was, now = old[part] or {}, new[part] or {}
        yield from (f"{part}.{key}" for key in dict.fromkeys([*was, *now]) if was.get(key) != now.get(key))
