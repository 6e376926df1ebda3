"""Runs experiments in real stacks.

An experiment is a function in a module of this folder. It is named "module.function" and called in a fork of a process
that has imported torch, transformers and TRL of one stack:

    def losses(folder: Path, *, beta: float) -> list[float]: ...                  # tests/stacks/some_module.py

    outcome = laboratory.run("0.15.2/4.48.3", "some_module.losses", beta=0.04)    # in a test
    assert outcome.result == [0.1, 0.2]

It gets a new folder, in which it also runs, and arguments and gives a result that JSON can carry. `folder.parent` is
one folder for all experiments of a stack, for what is made once. With ranks=2 it is called in two processes with the
variables that a launcher sets. A run is made once in a session: the same call again gives the same outcome, so that
several tests can ask for it. The module is imported in the fork and may import what it likes, so that a new module
needs no change here.

What grpo-run renders is an experiment too: a test plans and renders a run folder for the stack in its own process
(rendered.py), and hands its path to a function that trains it with the worker in the stack's (trained_runs.py).

A test that has a parameter `stack` carries the mark `stacks`; one that fills a column of benchmarks/stacks.md asks for
the fixture `stacks_table` and calls its `fill` with what it saw, before it asserts.
"""

import json
import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from environments import ENVIRONMENTS, NEWEST, Environment

LIMIT_S = 120
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1"}
QUIET = {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "DS_ACCELERATOR": "cpu"}


@dataclass(frozen=True, slots=True)
class Answer:
    """What one rank came to.

    result: what the function returned, None when it raised. raised: the exception's type, "" without one, "Died" when
    the process ended without an answer or took too long. text: its message. warnings: "Category: text" of each.
    """

    result: Any
    raised: str
    text: str
    warnings: list[str]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an experiment came to. folder: where it ran, with what it printed; cpu_s: of all its processes."""

    ranks: list[Answer]
    folder: Path
    cpu_s: float

    @property
    def told(self) -> Answer:
        """The first rank that raised, else the first that died of it, else rank 0."""
        raised = [rank for rank in self.ranks if rank.raised not in ("", "Died")]
        return next(iter(raised or [rank for rank in self.ranks if rank.raised] or self.ranks))

    @property
    def result(self) -> Any:
        """What rank 0 returned."""
        return self.ranks[0].result

    @property
    def output(self) -> str:
        """What all ranks printed, stdout and stderr."""
        return "".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("output-*.txt")))


class StackProcess:
    """The process of one stack. Raises AssertionError where its libraries cannot be imported."""

    def __init__(self, environment: Environment, folder: Path) -> None:
        assert environment.is_built(), f"run: python tests/stacks/environments.py '{environment.name}'"
        folder.mkdir(exist_ok=True, parents=True)
        self._errors = folder / "stderr.txt"
        paths = [*map(str, environment.folders()), *filter(None, [os.environ.get("PYTHONPATH")])]
        behind = {"PYTHONPATH": os.pathsep.join(paths)}
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("in_stack.py"))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors.open("a"),
            text=True,
            env={**os.environ, **OFFLINE, **QUIET, **behind, "TORCH_EXTENSIONS_DIR": str(folder / "extensions")},
            cwd=folder,
        )
        self.imports_cpu_s = float(self._line()["imports_cpu_s"])

    def _line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, self._errors.read_text(errors="replace")[-3000:]
        read: dict[str, Any] = json.loads(line)
        return read

    def call(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request of in_stack.py."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._line()

    def close(self) -> None:
        """Ends the process; it ends by itself when its input does."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)


@dataclass
class Laboratory:
    """All stacks of a session, and every outcome so far. cpu_s: per stack, imports included.

    The newest stack, with which others are compared, keeps its process; of the others one at a time has one.
    """

    folder: Path
    cpu_s: dict[str, float] = field(default_factory=dict)
    _outcomes: dict[tuple[str, str], Outcome] = field(default_factory=dict)
    _open: dict[str, StackProcess] = field(default_factory=dict)

    def _process_of(self, stack: str) -> StackProcess:
        if stack not in self._open:
            if stack != NEWEST:
                self._close(set(self._open) - {NEWEST})
            environment = ENVIRONMENTS[stack]
            self._open[stack] = process = StackProcess(environment, self.folder / environment.folder.name)
            self.cpu_s[stack] = self.cpu_s.get(stack, 0.0) + process.imports_cpu_s
        return self._open[stack]

    def run(
        self,
        stack: str,
        experiment: str,
        *,
        ranks: int = 1,
        limit_s: int = LIMIT_S,
        environment: dict[str, str] | None = None,
        **arguments: Any,
    ) -> Outcome:
        """The outcome of one experiment, made once. stack: a name of stacks.json; environment: more variables."""
        call = {"experiment": experiment, "ranks": ranks, "environment": environment or {}, "arguments": arguments}
        key = stack, json.dumps(call, sort_keys=True)
        if key not in self._outcomes:
            folder = self.folder / ENVIRONMENTS[stack].folder.name / f"{len(self._outcomes)}-{experiment}"
            folder.mkdir(parents=True)
            answered = self._process_of(stack).call({**call, "folder": str(folder), "limit_s": limit_s})
            self.cpu_s[stack] += answered["cpu_s"]
            ended = [Answer(**rank) for rank in answered["answers"]]
            self._outcomes[key] = Outcome(ended, folder, answered["cpu_s"])
        return self._outcomes[key]

    def close(self) -> None:
        """Ends the processes that are open."""
        self._close(set(self._open))

    def _close(self, stacks: set[str]) -> None:
        for stack in stacks:
            self._open.pop(stack).close()
