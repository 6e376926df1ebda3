"""The runs of a folder of run folders, and what else lies there."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from grpo_recipes.contract.files.folder_files import is_file, names
from grpo_recipes.errors import Refusal
from grpo_recipes.lock.read_lock import PLAN_FILE
from grpo_recipes.report.runs.one_run import ListedRun, one_run

MOST_RUNS = 100_000


class Runs(NamedTuple):
    """runs: the newest first. others: folders that are no runs or cannot be read, by name with the reason."""

    folder: str
    runs: list[ListedRun]
    others: Mapping[str, str]


def read_runs(folder: str) -> Runs:
    """The runs in a folder, or the one that the folder is. Raises Refusal where it cannot be listed."""
    place = Path(folder)
    if is_file(place, PLAN_FILE) and is_file(place, "launch.sh"):
        here = Path(os.path.abspath(folder))
        listed = [(here.name, here)]
    else:
        listed = [(name, place / name) for name in _folders(folder)]
    runs, others = [], {}
    for name, path in listed:
        try:
            run = one_run(path)
        except OSError as problem:
            others[name] = f"it cannot be read: {problem.strerror or problem}"
            continue
        if run is None:
            others[name] = "a sweep, with its runs in it" if is_file(path, "sweep.json") else "it has no plan.json"
        else:
            runs.append(run)
    return Runs(folder, sorted(runs, key=lambda run: (-run.at, run.name)), others)


def _folders(folder: str) -> list[str]:
    """The folders in a folder that are not hidden, also those that a link leads to."""
    try:
        os.stat(folder)
        found = [name for name in names(Path(folder)) if not name.startswith(".")]
    except OSError as problem:
        raise Refusal.of(
            f"{folder} cannot be listed",
            because=str(problem.strerror or problem),
            fix="name a folder of run folders; a run without --out makes its own in runs/",
        ) from None
    found = [name for name in found if os.path.isdir(os.path.join(folder, name))]
    if len(found) > MOST_RUNS:
        raise Refusal.of(f"{folder} holds more than {MOST_RUNS:,} folders", fix="name one with fewer runs")
    return found
