"""Makes the rows of reasoning-gym's tasks in a separate process, so that the package is not imported here.

Some tasks iterate over sets, whose order differs between processes, so that process has a fixed hash seed.
"""

import functools
import hashlib
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from importlib import import_module, metadata
from pathlib import Path
from typing import Any, NamedTuple

from grpo_recipes.contract.host.installing import install_command
from grpo_recipes.contract.tasks import COLUMNS, PACKAGE

HELD_OUT = 1 << 31
"""Added to the seed of held-out rows: row i of the package's seed s is row i - 1 of seed s + 1."""
LONGEST_S = 3600.0
_PASSES = 5
# Only the package that this file is in can be imported, and nothing next to it.
_PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from grpo_recipes.contract.tasks import task_rows
del sys.path[0]
task_rows.answer()
"""
_TUPLE, _PAIRS = "__tuple__", "__pairs__"


class NotMade(Exception):
    """No rows could be generated; the text says why in one line."""


class NotInstalled(NotMade):
    """The package is not installed."""


class MadeRows(NamedTuple):
    """The rows that tasks generated. rows: with COLUMNS. sha256: of the rows. release: of the package. scorers: by
    task, a digest of its scoring code.

    left_out: number of rows whose question is trained on.
    """

    rows: list[dict[str, Any]]
    sha256: str
    release: str
    scorers: dict[str, str]
    left_out: int


def make_rows(made: Mapping[str, Any]) -> MadeRows:
    """The rows for a plan's `made`. Raises NotMade."""
    wanted = {name: made[name] for name in ("tasks", "size", "seed", "not_in") if name in made}
    return _make_in_process(json.dumps(wanted, sort_keys=True))


@functools.lru_cache(maxsize=4)
def _make_in_process(wanted: str) -> MadeRows:
    hashed = {"PYTHONHASHSEED": "0", "MPLBACKEND": "Agg"}
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", _PROGRAM, str(Path(__file__).parents[3])],
            input=wanted,
            capture_output=True,
            encoding="utf-8",
            env=os.environ | hashed,
            timeout=LONGEST_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as problem:
        raise NotMade(str(problem)) from None
    try:
        answer = json.loads(done.stdout.rpartition("\n")[2])
    except ValueError:
        last = done.stderr.strip().splitlines()[-1:] or [f"its process ended with {done.returncode}"]
        raise NotMade(last[0]) from None
    if "error" in answer:
        raise (NotInstalled if answer.get("is_missing") else NotMade)(answer["error"])
    text = json.dumps(answer["rows"], sort_keys=True, ensure_ascii=False)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return MadeRows(answer["rows"], digest, answer["release"], answer["scorers"], answer["left_out"])


def as_text(value: object) -> str:
    """A task's metadata for a row as JSON that `from_text` restores exactly, including tuples and keys of any type."""
    return json.dumps(_tag(value), ensure_ascii=False, default=str)


def from_text(text: str) -> Any:
    """The value that `as_text` encoded."""
    return json.loads(text, object_hook=_untag)


def _tag(value: object) -> object:
    if isinstance(value, tuple):
        return {_TUPLE: [_tag(part) for part in value]}
    if isinstance(value, list):
        return [_tag(part) for part in value]
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value):
            return {key: _tag(part) for key, part in value.items()}
        return {_PAIRS: [[_tag(key), _tag(part)] for key, part in value.items()]}
    return value


def _untag(value: dict[str, Any]) -> Any:
    if value.keys() == {_TUPLE}:
        return tuple(value[_TUPLE])
    return dict(map(tuple, value[_PAIRS])) if value.keys() == {_PAIRS} else value


def dataset_of(tasks: list[dict[str, Any]], size: int, seed: int) -> Any:
    """The package's dataset for these tasks: the task's own, or a composite of several."""
    create_dataset = import_module("reasoning_gym").create_dataset
    if len(tasks) == 1:
        return create_dataset(tasks[0]["name"], size=size, seed=seed, **tasks[0]["config"])
    spec = import_module("reasoning_gym.composite").DatasetSpec
    specs = [spec(task["name"], task["weight"], task["config"]) for task in tasks]
    return create_dataset("composite", size=size, seed=seed, datasets=specs)


def answer() -> None:
    """Makes the rows requested on standard input, and writes them as the last line of standard output."""
    output = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="surrogatepass")
    os.dup2(2, 1)  # output of a task must not mix with the answer
    output.write(f"\n{json.dumps(_answer(json.loads(sys.stdin.read())))}")
    output.close()


def _answer(wanted: dict[str, Any]) -> dict[str, Any]:
    try:
        import_module("reasoning_gym")
    except ImportError as problem:
        fix = install_command([PACKAGE], PACKAGE)
        return {"error": f"{PACKAGE} cannot be imported: {problem}; {fix}", "is_missing": True}
    try:
        rows, left_out = _rows(wanted)
        scorers = {task["name"]: _scorer(task["name"]) for task in wanted["tasks"]}
    except Exception as problem:
        names = ", ".join(task["name"] for task in wanted["tasks"])
        return {"error": f"{names}: {type(problem).__name__}: {' '.join(str(problem).split())[:300]}"}
    if not rows:
        return {"error": f"all {left_out} rows of the evaluation have questions of the training rows"}
    return {"rows": rows, "left_out": left_out, "release": metadata.version(PACKAGE), "scorers": scorers}


def _rows(wanted: dict[str, Any]) -> tuple[list[dict[str, Any]], int]:
    """The rows, and how many were left out because their question is in `not_in`."""
    tasks, size = wanted["tasks"], wanted["size"]
    if "not_in" not in wanted:
        return _of_dataset(tasks, size, wanted["seed"]), 0
    trained = {row["question"] for row in _rows(wanted["not_in"])[0]}
    rows: list[dict[str, Any]] = []
    left_out = 0
    for attempt in range(_PASSES):
        made = _of_dataset(tasks, size, HELD_OUT + wanted["seed"] + attempt * size)
        new = [row for row in made if row["question"] not in trained]
        left_out += len(made) - len(new)
        rows += new[: size - len(rows)]
        if len(rows) == size:
            break
    return rows, left_out


def _of_dataset(tasks: list[dict[str, Any]], size: int, seed: int) -> list[dict[str, Any]]:
    dataset = dataset_of(tasks, size, seed)
    configs = {task["name"]: json.dumps(task["config"], sort_keys=True, ensure_ascii=False) for task in tasks}
    rows = []
    for index in range(size):
        entry = dataset[index]
        task = entry["metadata"]["source_dataset"] if len(tasks) > 1 else tasks[0]["name"]
        answer = entry["answer"] if entry["answer"] is None else str(entry["answer"])
        values = (str(entry["question"]), answer, task, configs[task], as_text(entry["metadata"]))
        rows.append(dict(zip(COLUMNS, values, strict=True)))
    return rows


def _scorer(name: str) -> str:
    """The digest of the source code that scores a task: its classes, and what they share."""
    kinds = import_module("reasoning_gym.factory").DATASETS[name][0].__mro__
    own = [kind for kind in kinds if kind.__module__.startswith("reasoning_gym.")]
    files = {str(inspect.getsourcefile(source)) for source in (*own, import_module("reasoning_gym.utils"))}
    return hashlib.sha256(b"".join(Path(file).read_bytes() for file in sorted(files))).hexdigest()
