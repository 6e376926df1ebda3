"""The interface of an engine: a module of this folder with an ENGINE, and its entry in contract/host/engines.py."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.host.engines import ENGINES
from grpo_recipes.contract.plan import Plan
from grpo_recipes.launch.progress import View

Prepare = Callable[[], Sequence[str]]


class Engine:
    """Starts the processes of a run folder. Run folders are always absolute."""

    def files(self, plan: Plan) -> Mapping[str, str]:
        """The files that this engine needs in the run folder, as text by name: those of EngineKind.scripts.

        Raises Refusal for a request that the engine does not accept.
        """
        return {}

    def start(self, plan: Plan, folder: str, *, resume: bool, echo: TextIO, view: View, prepare: Prepare) -> int:
        """Starts the run and returns its exit code when it has ended, or 0 if a person starts it.

        view: how much of it is shown on echo. prepare: called after the folder is locked and before anything is
        started; returns lines to print. Raises Refusal if nothing can be started.
        """
        raise NotImplementedError

    def follow(self, folder: str, *, echo: TextIO, view: View) -> int:
        """Shows the progress of the active run and returns its exit code; starts nothing. Raises Refusal."""
        raise Refusal.of(f"{folder}: this run cannot be followed", fix="read its train.log and metrics.jsonl")

    def look(self, plan: Plan, count: int, limit_s: int, echo: TextIO) -> list[Finding]:
        """The problems that `count` of the engine's machines find when they examine themselves.

        limit_s: how long to wait for the machines. Raises Refusal.
        """
        because = f"launch.engine is {plan.world.engine}, which does not allocate machines"
        raise Refusal.of("--on-nodes cannot examine machines for this run", because=because)

    def is_active(self, folder: str) -> bool:
        """Whether a run of this folder is queued or running and can be followed from here."""
        return False

    def shares(self, plan: Plan) -> Sequence[Mapping[str, str]]:
        """The environments for as many runs of this plan as can run at the same time.

        Each restricts a run to its own devices; empty if a person starts the runs.
        """
        return []

    def commands(self, plan: Plan, folder: str, *, resume: bool) -> list[str]:
        """The commands that start the run; empty if the engine starts it."""
        return []

    def advice(self, plan: Plan, folder: str) -> list[str]:
        """Advice about these commands, line by line."""
        return []


def engine_of(plan: Plan) -> Engine:
    """The engine that starts the run. Raises Refusal for an unknown one."""
    name = plan.world.engine
    if name not in ENGINES:
        raise Refusal.of(
            f"the plan is for the engine {name!r}, which this grpo-run does not support",
            because=f"it supports {', '.join(ENGINES)}, and a different one would start a different run",
            fix="run the folder's launch.sh on each machine, as in docs/machines.md; --resume continues the run",
        )
    engine = importlib.import_module(f"grpo_recipes.engines.{name}").ENGINE
    assert isinstance(engine, Engine)
    return engine
