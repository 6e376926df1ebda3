"""`grpo-run RUNDIR --resume`: goes on with an interrupted run, exactly as its plan says."""

import contextlib
import json
import os
from collections.abc import Iterator
from pathlib import Path

from grpo_recipes.cli.again import allowed_plan, planned_again, say
from grpo_recipes.cli.launching import Changes, ask_trust, launched, names_a_plan, refuse_strange_entries
from grpo_recipes.cli.node_commands import is_by_hand, print_commands
from grpo_recipes.errors import EXIT_DONE, Refusal
from grpo_recipes.launch.slurm_job import is_queued
from grpo_recipes.lock.read_lock import read_lock
from grpo_recipes.plan import Plan, to_json
from grpo_recipes.stack.probe import probe

STARTED_WITH = ("world", "arguments", "shims", "deepspeed", "environment")
_SHOWN = 6


def resume(folder: str, allowed: tuple[str, ...], *, accept_drift: bool, as_json: bool) -> int:
    """Continues from the newest whole checkpoint. Raises Refusal for a folder that cannot be continued."""
    if not names_a_plan(folder) and os.path.isfile(folder):
        raise Refusal(
            f"{folder} is a recipe, --resume goes on with a run\n"
            f"  = fix: grpo-run RUNDIR --resume, with the folder that the run printed; {_newest_run(folder)}"
        )
    lock = read_lock(folder)
    refuse_strange_entries(lock.folder)
    if lock.record is not None and lock.record.status == "completed":
        raise Refusal(f"{folder} is finished\n  = fix: grpo-run {folder} trains the same plan again")
    if lock.plan.slurm is not None and is_queued(lock.folder):
        return launched(lock.folder, as_json=as_json, resume=True)  # nothing is started, its job is followed
    changes = Changes(accept_drift=accept_drift)
    again = planned_again(lock, probe(), changes)
    say(again)
    _refuse_another_start(folder, lock.plan, allowed_plan(again, changes))
    ask_trust(lock.plan, allowed, folder)
    if is_by_hand(lock.plan):
        print_commands(lock.plan, os.path.abspath(lock.folder), as_json=as_json, resume=True)
        return EXIT_DONE
    return launched(folder, as_json=as_json, resume=True)


def _newest_run(recipe: str) -> str:
    """Words for the newest run folder of a recipe in runs/, where the runs are that named no other place."""
    found: list[tuple[float, str]] = []
    for plan in Path("runs").glob("*/plan.json"):
        with contextlib.suppress(Refusal, OSError):
            if read_lock(str(plan)).plan.recipe_file == os.path.abspath(recipe):
                found.append((plan.stat().st_mtime, str(plan.parent)))
    return f"its newest one here is {max(found)[1]}" if found else "none of this recipe is in runs/"


def _refuse_another_start(folder: str, old: Plan, new: Plan) -> None:
    """Raises Refusal where the folder, whose files stay as they are, would start something else than is needed here."""
    changed = list(_changed(json.loads(to_json(old)), json.loads(to_json(new))))
    if changed:
        raise Refusal(
            f"{folder}: the run cannot go on with what there is now\n"
            f"  = because: {', '.join(changed[:_SHOWN])} would not be as in its plan.json\n"
            f"  = fix: go on where it was started, or grpo-run {folder} --out FOLDER for a new run of the same plan"
        )


def _changed(old: dict[str, dict[str, object]], new: dict[str, dict[str, object]]) -> Iterator[str]:
    for part in STARTED_WITH:
        was, now = old[part] or {}, new[part] or {}
        yield from (f"{part}.{key}" for key in dict.fromkeys([*was, *now]) if was.get(key) != now.get(key))
