"""What completions of several turns are made with, as TRL takes it: tools, an environment, a rollout."""

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.planned_tools import EnvironmentClass, Rollout
from grpo_recipes.worker._shared.refused import Refused
from grpo_recipes.worker.tools.loaded_module import loaded_module
from grpo_recipes.worker.tools.tally import Tally
from grpo_recipes.worker.tools.tool_functions import Tools, load_tools
from grpo_recipes.worker.tools.tool_messages import error_text
from grpo_recipes.worker.tools.tool_process import ToolFailed
from grpo_recipes.worker.user_code.contained import RewardLeft, contained
from grpo_recipes.worker.user_code.outcome import place_of
from grpo_recipes.worker.user_code.user_modules import checked_sources

# Methods of an environment that TRL calls itself; the others without an underscore are tools.
NO_TOOLS = ("reset", "get_reward")


class Turns:
    """The user's code of the turns of a training. close() when that is over, however it ended.

    arguments: keywords of GRPOTrainer, {} where every completion is one turn of the model alone.
    """

    def __init__(self, arguments: dict[str, Any], tally: Tally, tools: Tools | None) -> None:
        self.arguments, self.tally, self._tools = arguments, tally, tools

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
        arguments["environment_factory"] = _factory(plan.environment_class, user, tally)
    if plan.rollout is not None:
        arguments["rollout_func"] = _rollout(plan.rollout, user)
    return Turns(arguments, tally, tools)


def _factory(planned: EnvironmentClass, user: Path, tally: Tally) -> Callable[[], Any]:
    own = _loaded(planned, user, "environment")
    if not isinstance(own, type):
        raise Refused.of(f"environment {planned.name}: {planned.target} is no class")
    methods = {name: each for name, each in inspect.getmembers(own, inspect.isfunction) if not name.startswith("_")}
    tools = {name: _counted(each, name, tally, user) for name, each in methods.items() if name not in NO_TOOLS}
    kept = {name: _contained(methods[name], f"{planned.name}.{name}") for name in NO_TOOLS if name in methods}
    # The name is that of the reward that an environment may have of its own.
    made = type(own.__name__, (own,), {**tools, **kept, "__doc__": own.__doc__, "__module__": own.__module__})

    def environment() -> Any:
        with contained(planned.name, "environment"):
            return made(**planned.config)

    return environment


def _counted(method: Callable[..., Any], name: str, tally: Tally, user: Path) -> Callable[..., Any]:
    """A method that the policy calls, in this process: it has the state of its object there."""
    tally.add(name)
    if inspect.iscoroutinefunction(method):

        @functools.wraps(method)
        async def awaited(self: Any, **arguments: Any) -> Any:
            with tally.counted(name), _told(user):
                return await method(self, **arguments)

        return awaited

    @functools.wraps(method)
    def called(self: Any, **arguments: Any) -> Any:
        with tally.counted(name), _told(user), contained(name, "tool"):
            return method(self, **arguments)

    return called


@contextmanager
def _told(user: Path) -> Iterator[None]:
    """Around a call: what it raises has a text for the policy, and a place for the log."""
    try:
        yield
    except Exception as problem:
        cause = problem.__cause__ if isinstance(problem, RewardLeft) and problem.__cause__ is not None else problem
        raise ToolFailed(error_text(cause), place_of(cause, str(user))) from cause


def _contained(method: Callable[..., Any], name: str) -> Callable[..., Any]:
    if inspect.iscoroutinefunction(method):
        return method

    @functools.wraps(method)
    def called(self: Any, *given: Any, **named: Any) -> Any:
        with contained(name, "environment"):
            return method(self, *given, **named)

    return called


def _rollout(planned: Rollout, user: Path) -> Callable[..., Any]:
    function = _loaded(planned, user, "rollout")

    @functools.wraps(function)
    def rollout(prompts: list[Any], trainer: Any) -> Any:
        with contained(planned.name, "rollout"):
            return function(prompts, trainer)

    return rollout


def _loaded(planned: EnvironmentClass | Rollout, user: Path, kind: str) -> Any:
    module = loaded_module(planned.name, kind, checked_sources(planned, user, kind))
    found = getattr(module, planned.target.rpartition(":")[2], None)
    if not callable(found):
        raise Refused.of(f"{kind} {planned.name}: {module.__file__} has no {planned.target.rpartition(':')[2]}")
    return found
