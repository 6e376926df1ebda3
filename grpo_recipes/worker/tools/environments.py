"""The user's environment as TRL takes it: what makes an object, whose methods are counted, limited and bounded."""

import asyncio
import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from grpo_recipes.contract.planned_tools import EnvironmentClass
from grpo_recipes.worker.tools.limits import within
from grpo_recipes.worker.tools.tally import Tally
from grpo_recipes.worker.tools.tool_messages import error_text, told
from grpo_recipes.worker.tools.tool_process import ToolFailed
from grpo_recipes.worker.user_code.contained import RewardLeft, contained
from grpo_recipes.worker.user_code.outcome import place_of
from grpo_recipes.worker.user_code.reward_faults import OF_THE_ROW, short_text

Method = Callable[..., Any]
# What TRL calls itself; the other methods without an underscore are tools.
NO_TOOLS = ("reset", "get_reward")


def environment_factory(planned: EnvironmentClass, own: type, tally: Tally, user: Path) -> Callable[[], Any]:
    """What makes an object of the user's class. A call that takes longer than planned is ended and fails.

    user: the folder of the user's files.
    """
    methods = {name: each for name, each in inspect.getmembers(own, inspect.isfunction) if not name.startswith("_")}
    tools = {name: _called(each, name, planned, tally, user) for name, each in methods.items() if name not in NO_TOOLS}
    kept = {name: _kept(methods[name], planned) for name in NO_TOOLS if name in methods}
    # The name is that of the reward that an environment may have of its own.
    made = type(own.__name__, (own,), {**tools, **kept, "__doc__": own.__doc__, "__module__": own.__module__})

    def environment() -> Any:
        with contained(planned.name, "environment"), within(planned.timeout, f"{planned.name}()"):
            return made(**planned.config)

    return environment


def _called(method: Method, name: str, planned: EnvironmentClass, tally: Tally, user: Path) -> Method:
    """A method that the policy calls, in this process: it has the state of its object there."""
    tally.add(name)
    if inspect.iscoroutinefunction(method):

        @functools.wraps(method)
        async def awaited(self: Any, **arguments: Any) -> Any:
            with tally.counted(name), _explained(user):
                try:
                    return told(await asyncio.wait_for(method(self, **arguments), planned.timeout))
                except TimeoutError:
                    text = f"{name} took longer than {planned.timeout:g} seconds and was ended"
                    raise ToolFailed(text, by="time") from None

        return awaited

    @functools.wraps(method)
    def called(self: Any, **arguments: Any) -> Any:
        with tally.counted(name), _explained(user), contained(name, "tool"), within(planned.timeout, name):
            return told(method(self, **arguments))

    return called


@contextmanager
def _explained(user: Path) -> Iterator[None]:
    """Around a call: what it raises has a text for the policy, and a place for the log."""
    try:
        yield
    except ToolFailed:
        raise
    except Exception as problem:
        cause = problem.__cause__ if isinstance(problem, RewardLeft) and problem.__cause__ is not None else problem
        raise ToolFailed(error_text(cause), place_of(cause, str(user))) from cause


def _kept(method: Method, planned: EnvironmentClass) -> Method:
    """A method that TRL calls itself; what it raises ends the run."""
    if inspect.iscoroutinefunction(method):
        return method
    name = f"{planned.name}.{method.__name__}"

    @functools.wraps(method)
    def called(self: Any, *given: Any, **row: Any) -> Any:
        with contained(name, "environment"):
            try:
                with within(planned.timeout, name):
                    return method(self, *given, **row)
            except Exception as problem:
                if "prompt" in row:
                    problem.add_note(f"{OF_THE_ROW}{short_text(row['prompt'])}")
                raise

    return called
