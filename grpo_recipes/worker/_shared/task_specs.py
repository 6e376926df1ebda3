"""Wraps TRL's own environments, OpenRewardSpec and HarborSpec, as an environment class with rows, tools and a reward.

The service is contacted before a model is loaded, so a service that does not respond is reported early.
"""

import functools
import importlib
import inspect
import json
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from datasets import Dataset

from grpo_recipes.contract.files.regular_file import file_sha256, files_sha256
from grpo_recipes.contract.tasks import HARBOR, OPENREWARD, SPECS
from grpo_recipes.worker._shared.inputs import Refused

SPLIT = "task_split"
"""The column with a row's split: a held-out row is played in the held-out split."""
TASK = "task"
"""The column with the name of a Harbor folder, since its path differs between machines."""
_MADE_BY_TRL = ("reset", "reward")
_OPEN: Any = weakref.WeakSet()


def rows_of(target: str, config: Any) -> Dataset:
    """Returns the rows of one of SPECS. Raises Refused if they cannot be read."""
    with _asking(target):
        rows = _spec(target, json.dumps(config)).train_dataset
    if target == OPENREWARD:
        return rows.add_column(SPLIT, [config["split"]] * len(rows))
    folders = [Path(folder) for folder in rows["task_dir"]]
    rows = rows.remove_columns("task_dir").add_column(TASK, [folder.name for folder in folders])
    return rows.add_column(f"{TASK}_sha256", [_content(folder) for folder in folders])


def _content(folder: Path) -> str:
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return files_sha256((str(file.relative_to(folder)), file_sha256(file)) for file in files)


def class_of_spec(target: str, config: dict[str, Any]) -> type:
    """Returns a class whose objects play the tasks of one of SPECS. Raises Refused if its service does not respond.

    An object has one TRL environment for each split that it was reset for. The tools are those of `config`.
    """
    with _asking(target):
        if target == HARBOR and config.get("environment_type", "docker") == "docker":
            subprocess.run(["docker", "version"], check=True, capture_output=True, text=True, timeout=60)
        made_by = _spec(target, json.dumps(config)).environment_factory
        known = made_by.func if target == HARBOR else type(made_by())
    methods = {name: each for name, each in inspect.getmembers(known, inspect.isfunction) if not name.startswith("_")}

    def made(self: Any, **_: Any) -> None:
        self._by_split = {}

    def reset(self: Any, **row: Any) -> Any:
        of_split = {**config, **({"split": split} if (split := row.pop(SPLIT, None)) else {})}
        text = json.dumps(of_split)
        if target == HARBOR and TASK in row:
            row["task_dir"] = _folders(text)[row.pop(TASK)]
        if text not in self._by_split:
            self._by_split[text] = _spec(target, text).environment_factory()
            _OPEN.add(self._by_split[text])
        self._own = self._by_split[text]
        return self._own.reset(**row)

    def get_reward(self: Any) -> float | None:
        found: float | None = self._own.reward
        return found

    def of_the_own(self: Any, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._own, name)

    tools = {name: _handed_on(each) for name, each in methods.items() if name not in _MADE_BY_TRL}
    own = {"__init__": made, "__getattr__": of_the_own, "reset": reset, "get_reward": get_reward}
    return type(target.rpartition(":")[2], (), {**tools, **own})


def _handed_on(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def called(self: Any, *given: Any, **named: Any) -> Any:
        return getattr(self._own, method.__name__)(*given, **named)

    return called


@functools.cache
def _folders(config: str) -> dict[str, str]:
    return {Path(folder).name: folder for folder in _spec(HARBOR, config).train_dataset["task_dir"]}


@functools.cache
def _spec(target: str, config: str) -> Any:
    """Returns the spec for rows and environments, which asks the service only once. config: JSON."""
    module, _, name = target.rpartition(":")
    if target == HARBOR:
        _end_without_waiting(importlib.import_module(module).HarborEnv)
    given = json.loads(config)
    first = given.pop("dataset" if target == HARBOR else "target")
    return getattr(importlib.import_module(module), name)(first, **given)


def _end_without_waiting(kind: Any) -> None:
    """Lets Python exit. Source: trl 1.16.0 experimental/harbor/_env.py, whose __del__ waits for a thread.

    At exit Python has already ended that thread, so even a two-line script that creates a HarborEnv hangs.
    """
    ends = kind.__del__
    if not getattr(ends, "is_own", False):

        def end(self: Any) -> None:
            if not sys.is_finalizing():
                ends(self)

        end.is_own = True  # type: ignore[attr-defined]
        kind.__del__ = end


def close_specs() -> None:
    """Closes the server sessions and sandboxes of this process."""
    for one in list(_OPEN):
        with suppress(Exception):
            one._close() if hasattr(one, "_close") else one._run(one._stop())


@contextmanager
def _asking(target: str) -> Iterator[None]:
    name, package = target.rpartition(":")[2], SPECS[target]
    try:
        yield
    except ImportError as problem:
        fix = f"pip install {package}"
        raise Refused.of(f"environment {name}: {package} cannot be imported", because=str(problem), fix=fix) from None
    except Exception as problem:
        output = problem.stderr if isinstance(problem, subprocess.CalledProcessError) else str(problem)
        lines = [line.strip() for line in output.strip().splitlines()] or [repr(problem)]
        raise Refused.of(
            f"environment {name}: its tasks cannot be read",
            because=[f"{type(problem).__name__}: {lines[0]}", *lines[1:3]],
            fix="start its service, or correct environment.config and the variables that name it",
        ) from problem
