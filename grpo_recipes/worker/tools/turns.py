"""What completions of several turns are made with, as TRL takes it: tools, an environment, a rollout."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.planned_tools import EnvironmentClass, Rollout
from grpo_recipes.worker._shared.refused import Refused
from grpo_recipes.worker.tools.environments import environment_factory
from grpo_recipes.worker.tools.rollouts import rollout_function
from grpo_recipes.worker.tools.tally import Tally
from grpo_recipes.worker.tools.tool_functions import Tools, load_tools
from grpo_recipes.worker.user_code.contained import RewardLeft, contained
from grpo_recipes.worker.user_code.user_modules import checked_sources, user_module


class Turns:
    """The user's code of the turns of a training. close() when that is over, however it ended.

    arguments: keywords of GRPOTrainer, {} where every completion is one turn of the model alone.
    """

    def __init__(self, arguments: dict[str, Any], tally: Tally, tools: Tools | None) -> None:
        self.arguments, self.tally, self._tools = arguments, tally, tools

    @property
    def environment(self) -> Callable[[], Any] | None:
        """What makes an object of the environment, None without one."""
        made: Callable[[], Any] | None = self.arguments.get("environment_factory")
        return made

    def close(self) -> None:
        """Ends the process of the tools."""
        if self._tools is not None:
            self._tools.close()


def load_turns(plan: Plan, user: Path) -> Turns:
    """What the plan has of it, loaded. user: the folder of the user's files. Raises Refused."""
    arguments: dict[str, Any] = {}
    tally = Tally()
    tools = load_tools(plan.tools, user, tally) if plan.tools else None
    if tools is not None:
        arguments["tools"] = tools.functions
    if plan.environment_class is not None:
        arguments["environment_factory"] = environment_factory(
            plan.environment_class, _class(plan.environment_class, user), tally
        )
    if plan.rollout is not None:
        arguments["rollout_func"] = rollout_function(plan.rollout, _loaded(plan.rollout, user, "rollout"))
    return Turns(arguments, tally, tools)


def _class(planned: EnvironmentClass, user: Path) -> type:
    own = _loaded(planned, user, "environment")
    if not isinstance(own, type):
        raise Refused.of(f"environment {planned.name}: {planned.target} is no class")
    return own


def _loaded(planned: EnvironmentClass | Rollout, user: Path, kind: str) -> Any:
    sources = checked_sources(planned, user, kind)
    try:
        with contained(planned.name, kind):
            module = user_module(sources)
    except RewardLeft as left:
        raise Refused.of(str(left)) from left
    found = getattr(module, planned.target.rpartition(":")[2], None)
    if not callable(found):
        raise Refused.of(f"{kind} {planned.name}: {module.__file__} has no {planned.target.rpartition(':')[2]}")
    return found
