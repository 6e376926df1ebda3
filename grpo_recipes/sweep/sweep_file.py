"""Reads and writes sweep.json, the planned runs of a sweep. It is next to their folders and is never rewritten."""

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.files.bounded_json import read_json
from grpo_recipes.contract.files.folder_files import is_file, write_whole
from grpo_recipes.sweep.variations import Trial

SWEEP_FILE = "sweep.json"
SWEEP_FORMAT = 1


class SweepRun(NamedTuple):
    """A run of a sweep. name: of its folder. setting: its index among the settings, from 0."""

    name: str
    setting: int
    seed: int


class Sweep(NamedTuple):
    """The runs of a sweep, in the order in which they are started.

    recipe: the file, absolute. settings: each has a value for every varied key. base: the setting that equals the
    unchanged recipe, None if there is none.
    """

    recipe: str
    settings: tuple[Trial, ...]
    seeds: tuple[int, ...]
    runs: tuple[SweepRun, ...]
    base: int | None


def is_sweep(path: str) -> bool:
    """Whether a path is the folder of a sweep."""
    return is_file(Path(path), SWEEP_FILE)


def write_sweep_file(folder: Path, sweep: Sweep) -> None:
    """Writes sweep.json atomically. Raises OSError."""
    content = {
        "sweep": SWEEP_FORMAT,
        "recipe": sweep.recipe,
        "settings": [dict(trial) for trial in sweep.settings],
        "seeds": list(sweep.seeds),
        "base": sweep.base,
        "runs": [run._asdict() for run in sweep.runs],
    }
    write_whole(folder, SWEEP_FILE, json.dumps(content, indent=2) + "\n")


def read_sweep(folder: str) -> Sweep:
    """The sweep of a folder. Raises Refusal if it cannot be read, or names a run outside of it."""
    try:
        return _read(cast("dict[str, Any]", read_json(Path(folder), SWEEP_FILE)))
    except OSError as problem:
        because = str(problem.strerror or problem)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError) as problem:
        because = f"{type(problem).__name__}: {problem}"
    raise Refusal.of(
        f"{folder} is not a sweep of this release",
        because=f"{SWEEP_FILE}: {because.splitlines()[0]}",
        fix="name the folder that `grpo-run sweep RECIPE` printed, or a recipe for a new sweep",
    )


def _read(content: dict[str, Any]) -> Sweep:
    if content["sweep"] != SWEEP_FORMAT:
        raise ValueError(f"it has the format {content['sweep']!r}")
    settings = tuple(tuple((str(key), str(text)) for key, text in setting.items()) for setting in content["settings"])
    runs = tuple(SweepRun(str(run["name"]), int(run["setting"]), int(run["seed"])) for run in content["runs"])
    base = None if content["base"] is None else int(content["base"])
    for run in runs:
        if not SAFE_NAME.fullmatch(run.name):
            raise ValueError(f"{run.name!r} is not the name of a run")
    places = {run.setting for run in runs} | {base or 0}
    if not runs or not places <= set(range(len(settings))):
        raise ValueError("its runs and settings do not match")
    if len({run.name for run in runs}) != len(runs) or len({run[1:] for run in runs}) != len(runs):
        raise ValueError("a run is listed twice")
    return Sweep(str(content["recipe"]), settings, tuple(int(seed) for seed in content["seeds"]), runs, base)


SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}")
_UNSAFE = re.compile(r"[^A-Za-z0-9._+]+")
_LONGEST = 100
_SHORT = 4
"""Last parts of this length, such as r or beta, do not identify a key."""


def headings(keys: Sequence[str]) -> dict[str, str]:
    """The last part of each key, or the whole key if that is ambiguous."""
    last = [key.rpartition(".")[2] for key in keys]
    return {
        key: end if last.count(end) == 1 and len(end) > _SHORT else key for key, end in zip(keys, last, strict=True)
    }


def setting_text(trial: Trial) -> str:
    """A setting for a reader: "learning_rate=1e-5 lora.r=8"."""
    named = headings([key for key, _ in trial])
    return " ".join(f"{named[key]}={text}" for key, text in trial) or "as it stands"


def run_names(runs: Sequence[tuple[Trial, int]]) -> list[str]:
    """A name for each run, from its setting and seed, in order; unique even if case is ignored."""
    names: list[str] = []
    taken: set[str] = set()
    for trial, seed in runs:
        named = headings([key for key, _ in trial])
        whole = "-".join([*(f"{named[key]}-{text}" for key, text in trial), f"seed-{seed}"])
        name = _UNSAFE.sub("-", whole).strip("-.+_")
        if len(name) > _LONGEST or name.lower() in taken:
            name = f"{name[:_LONGEST].rstrip('-.+_')}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}"
        taken.add(name.lower())
        names.append(name)
    return names
