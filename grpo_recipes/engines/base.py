"""The contract of an engine: a module of this folder with an ENGINE, and its line in contract/host/engines.py."""

import importlib
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO

from grpo_recipes.contract.errors import Refusal
from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.host.engines import ENGINES
from grpo_recipes.contract.plan import Plan
from grpo_recipes.launch.progress import View

Prepare = Callable[[], Sequence[str]]


class Engine:
    """Starts the processes of a run folder. A run folder is always absolute."""

    def files(self, plan: Plan) -> Mapping[str, str]:
        """Texts of the files that the run folder has for this engine, by name: those of EngineKind.scripts.

        Raises Refusal for what the engine cannot be asked for.
        """
        return {}

    def start(self, plan: Plan, folder: str, *, resume: bool, echo: TextIO, view: View, prepare: Prepare) -> int:
        """Starts the run and returns its exit code when it has ended, or 0 where a person starts it.

        view: how much of it is seen on echo. prepare: called when nobody else may use the folder and nothing was
        started; returns lines to say.
        Raises Refusal where nothing can be started.
        """
        raise NotImplementedError

    def follow(self, folder: str, *, echo: TextIO, view: View) -> int:
        """Shows how the active run goes on and returns its exit code; nothing is started. Raises Refusal."""
        raise Refusal.of(f"{folder}: this run cannot be followed", fix="its train.log and metrics.jsonl grow")

    def look(self, plan: Plan, count: int, limit_s: int, echo: TextIO) -> list[Finding]:
        """What so many machines that the engine would start the run on find at themselves.

        limit_s: how long they are waited for. Raises Refusal.
        """
        because = f"launch.engine is {plan.world.engine}, which shares out no machines here"
        raise Refusal.of("--on-nodes cannot look at machines of this run", because=because)

    def is_active(self, folder: str) -> bool:
        """Whether a run of this folder waits or goes on somewhere and can be followed from here."""
        return False

    def shares(self, plan: Plan) -> Sequence[Mapping[str, str]]:
        """What many runs with the needs of this plan are started with, for as many as may go on at once.

        Variables of the environment that keep one from the devices of another; none where a person starts the runs.
        """
        return []

    def commands(self, plan: Plan, folder: str, *, resume: bool) -> list[str]:
        """What a person types to start the run; none where the engine starts it."""
        return []

    def advice(self, plan: Plan, folder: str) -> list[str]:
        """What to know about these commands, line by line."""
        return []


def engine_of(plan: Plan) -> Engine:
    """The engine that starts the run. Raises Refusal for one that this grpo-run does not have."""
    name = plan.world.engine
    if name not in ENGINES:
        raise Refusal.of(
            f"the plan is for the engine {name!r}, which this grpo-run does not have",
            because=f"it has {', '.join(ENGINES)}, and another one would start another run",
            fix="the grpo-run that made the plan, or the recipe again with launch.engine: local",
        )
    engine = importlib.import_module(f"grpo_recipes.engines.{name}").ENGINE
    assert isinstance(engine, Engine)
    return engine
