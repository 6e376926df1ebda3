"""Wraps the user's environment class for TRL: calls are counted, limited in time, and errors are explained."""

import functools
import inspect
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from grpo_recipes.contract.plan_sections import EnvironmentClass
from grpo_recipes.worker.tools.tally import Tally
from grpo_recipes.worker.tools.tool_functions import explain_exceptions, in_time
from grpo_recipes.worker.tools.tool_process import ToolFailed, answer_for_policy
from grpo_recipes.worker.user_code.isolation import RewardLeft, contain, own_copy
from grpo_recipes.worker.user_code.reward_call import OF_THE_ROW, short_text

Method = Callable[..., Any]
OWN_REWARD = "get_reward"
# Methods that TRL calls itself; the other public methods are tools.
NO_TOOLS = ("reset", OWN_REWARD)
# The attribute with the prompt of an object's row, for error messages.
_PROMPT = "_grpo_run_prompt"


def environment_factory(
    planned: EnvironmentClass, own: type, tally: Tally, user: Path, named: str | None = None
) -> Callable[[], Any]:
    """Returns the factory of the user's class. A call that exceeds the planned time is ended and fails.

    user: the folder of the user's files. named: its name in rows, None for a single environment.
    """
    methods = {name: each for name, each in inspect.getmembers(own, inspect.isfunction) if not name.startswith("_")}
    tools = {
        name: _wrap_for_policy(each, name, planned, tally, user)
        for name, each in methods.items()
        if name not in NO_TOOLS
    }
    rest = {name: _wrap_for_trl(methods[name], planned) for name in NO_TOOLS if name in methods}
    # The class name is also the name of its reward, if it has one: with several environments, the recipe's name.
    made = type(named or own.__name__, (own,), {**tools, **rest, "__doc__": own.__doc__, "__module__": own.__module__})

    def environment() -> Any:
        with contain(planned.name, "environment"), within(planned.timeout, f"{planned.name}()"):
            return made(**planned.config)

    return environment


def _wrap_for_policy(method: Method, name: str, planned: EnvironmentClass, tally: Tally, user: Path) -> Method:
    """Wraps a method that the policy calls, in this process, which has its object's state."""
    tally.add(name)

    @contextmanager
    def around(_: Any, __: dict[str, Any]) -> Iterator[None]:
        with tally.count_call(name), explain_exceptions(user):
            yield

    return _limit(method, name, "tool", planned.timeout, around, answer_for_policy)


def _wrap_for_trl(method: Method, planned: EnvironmentClass) -> Method:
    """Wraps a method that TRL calls itself; an exception in it ends the run."""
    return _limit(
        method, f"{planned.name}.{method.__name__}", "environment", planned.timeout, _note_prompt, lambda answer: answer
    )


def _limit(
    method: Method, name: str, kind: str, timeout: float, around: Callable[..., Any], answer: Callable[[Any], Any]
) -> Method:
    """Wraps a method with a time limit. around: entered with the object and the call's keywords.

    Each call gets its own copies: an object that keeps a list of its row may change it, and rewards read that row.
    """
    if inspect.iscoroutinefunction(method):

        @functools.wraps(method)
        async def await_method(self: Any, *given: Any, **named: Any) -> Any:
            with around(self, named):
                return answer(await in_time(method(self, *own_copy(given), **own_copy(named)), name, kind, timeout))

        return await_method

    @functools.wraps(method)
    def call_method(self: Any, *given: Any, **named: Any) -> Any:
        with around(self, named), contain(name, kind), within(timeout, name):
            return answer(method(self, *own_copy(given), **own_copy(named)))

    return call_method


@contextmanager
def _note_prompt(environment: Any, row: dict[str, Any]) -> Iterator[None]:
    """Adds the prompt of the object's row to exceptions of a call that TRL makes."""
    if "prompt" in row:
        object.__setattr__(environment, _PROMPT, row["prompt"])
    try:
        yield
    except BaseException as problem:
        cause = problem.__cause__ if isinstance(problem, RewardLeft) and problem.__cause__ is not None else problem
        if hasattr(environment, _PROMPT):
            cause.add_note(f"{OF_THE_ROW}{short_text(getattr(environment, _PROMPT))}")
        raise


_AGAIN_AFTER_S = 1.0


class _TookTooLong(BaseException):
    """A call exceeded its time limit. A BaseException, because user code often catches Exception."""


@contextmanager
def within(seconds: float, what: str) -> Iterator[None]:
    """Limits one call. Raises ToolFailed if it takes longer; library code that never returns is not ended.

    Only the main thread is interrupted; a call in another thread has no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    give_up = time.monotonic() + seconds

    def late(_: int, __: FrameType | None) -> None:
        if time.monotonic() >= give_up:
            raise _TookTooLong

    before = signal.signal(signal.SIGALRM, late)
    # Repeatedly, for code that catches everything.
    signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_AFTER_S)
    try:
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except _TookTooLong as ended:
        failed = ToolFailed(f"{what} took longer than {seconds:g} seconds and was ended", by="time")
        raise failed.with_traceback(ended.__traceback__) from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
