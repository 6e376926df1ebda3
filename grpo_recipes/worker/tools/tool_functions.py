"""Wraps the plan's tools for TRL as functions with the user's name, signature and docstring."""

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any

from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.plan_sections import Tool
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.tools.tally import Tally
from grpo_recipes.worker.tools.tool_process import Result, ToolFailed, ToolProcess, answer_for_policy, error_text
from grpo_recipes.worker.user_code.isolation import RAISED_IN, RewardLeft, contain, own_copy
from grpo_recipes.worker.user_code.reward_call import outcome_of_exception, place_of
from grpo_recipes.worker.user_code.user_modules import check_sources, user_module

ToolFunction = Callable[..., Any]


def check_tool_files(plan: Plan, user: Path) -> None:
    """Raises Refused if a file of a tool, the environment or the rollout differs from the plan; runs none."""
    for tool in plan.tools:
        check_sources(tool, user, "tool")
    for environment in plan.all_environments.values():
        if environment.package is not None:
            because, fix = "an older grpo-run made the plan", "a class of yours around it, as in docs/environments.md"
            what = f"environment {environment.name}: {environment.target} is not a class in a file of yours"
            raise Refused.of(what, because=because, fix=fix)
        check_sources(environment, user, "environment")
    if plan.rollout is not None:
        check_sources(plan.rollout, user, "rollout")


def load_tools(tools: tuple[Tool, ...], user: Path, tally: Tally) -> tuple[list[ToolFunction], ToolProcess | None]:
    """Returns the functions that TRL calls, and the process, to be closed afterwards, that runs the synchronous ones.

    The process is started here, so that a file that cannot be loaded ends the run before its first step. Raises
    Refused.
    """
    for tool in tools:
        tally.add(tool.name)
    sources = {tool.name: (tool.target.rpartition(":")[2], check_sources(tool, user, "tool")) for tool in tools}
    own = {tool.name: _function(tool, *sources[tool.name]) for tool in tools}
    apart = {tool.name: sources[tool.name] for tool in tools if not inspect.iscoroutinefunction(own[tool.name])}
    process = ToolProcess(apart, user) if apart else None
    if process is not None:
        _start(process, tuple(apart))
    functions = [
        _beside(tool, own[tool.name], tally, user)
        if process is None or tool.name not in apart
        else _apart(tool, own[tool.name], process, tally)
        for tool in tools
    ]
    return functions, process


def _function(tool: Tool, name: str, sources: dict[Path, bytes]) -> ToolFunction:
    module = load_module(tool.name, "tool", sources)
    function = getattr(module, name, None)
    if not callable(function):
        raise Refused.of(f"tool {tool.name}: {module.__file__} has no function {name}")
    if tool.is_async is not None and inspect.iscoroutinefunction(function) != tool.is_async:
        kinds = ("is not asynchronous", "is asynchronous")
        raise Refused.of(
            f"tool {tool.name}: {name} {kinds[not tool.is_async]}",
            because=f"in the plan it {kinds[tool.is_async]}",
            fix="plan again; write decorators so that they return an async function for an async function",
        )
    tool_function: ToolFunction = function
    return tool_function


def _start(process: ToolProcess, names: tuple[str, ...]) -> None:
    try:
        process.start()
    except ToolFailed as problem:
        process.close()
        raise Refused.of(
            f"tools {', '.join(names)}: their process could not load them",
            because=[str(problem), *([problem.place] if problem.place else [])],
            fix="import and compute less at the top level of the file; tools have 1 GiB of memory",
        ) from problem


def _apart(tool: Tool, function: ToolFunction, process: ToolProcess, tally: Tally) -> ToolFunction:
    @functools.wraps(function)
    def call_apart(**arguments: Any) -> Result:
        with tally.count_call(tool.name):
            return process.call(tool.name, arguments, tool.timeout, tally.next_seed())

    return _set_name(call_apart, tool)


def _beside(tool: Tool, function: ToolFunction, tally: Tally, user: Path) -> ToolFunction:
    """Wraps an async tool, which TRL runs in the trainer's process; code in it that blocks cannot be ended."""

    @functools.wraps(function)
    async def call_beside(**arguments: Any) -> Result:
        with tally.count_call(tool.name), explain_exceptions(user):
            return answer_for_policy(await in_time(function(**own_copy(arguments)), tool.name, "tool", tool.timeout))

    return _set_name(call_beside, tool)


@contextmanager
def explain_exceptions(user: Path) -> Iterator[None]:
    """Turns exceptions of a call into a text for the policy and a source line for the log."""
    try:
        yield
    except ToolFailed:
        raise
    except Exception as problem:
        cause = problem.__cause__ if isinstance(problem, RewardLeft) and problem.__cause__ is not None else problem
        raise ToolFailed(error_text(cause), place_of(cause, str(user))) from cause


async def in_time(call: Coroutine[Any, Any, Any], name: str, kind: str, timeout: float) -> Any:
    """Returns an async call's result. Passes its exceptions on, with its name; raises ToolFailed if it is late."""
    stopped_at: list[TracebackType | None] = []

    async def answer_or_problem() -> tuple[Any, BaseException | None]:
        try:
            return await call, None
        except asyncio.CancelledError as ended:
            stopped_at.append(ended.__traceback__)
            raise
        except BaseException as problem:  # SystemExit would end its event loop
            return None, problem

    try:
        answer, problem = await asyncio.wait_for(answer_or_problem(), timeout)
    except TimeoutError:
        late = ToolFailed(f"{name} took longer than {timeout:g} seconds and was ended", by="time")
        if kind != "tool":  # the policy gets a tool's failure, any other ends the run
            late.add_note(f"{RAISED_IN}{kind} {name}")
        raise late.with_traceback(stopped_at[0] if stopped_at else None) from None
    if problem is None:
        return answer
    # The loop's thread replaces a TimeoutError by a new one, without its notes.
    if isinstance(problem, TimeoutError) or not isinstance(problem, Exception):
        raise RewardLeft(f"{kind} {name} raised {type(problem).__name__}: {problem}") from problem
    problem.add_note(f"{RAISED_IN}{kind} {name}")
    raise problem


def _set_name(function: ToolFunction, tool: Tool) -> ToolFunction:
    function.__name__ = tool.name
    return function


def load_module(name: str, kind: str, sources: dict[Path, bytes]) -> ModuleType:
    """Imports the first of the files, which defines the named function or class. Raises Refused for any exception."""
    path = next(iter(sources))
    try:
        with contain(name, kind):
            return user_module(sources)
    except Refused:
        raise
    except Exception as problem:
        outcome = outcome_of_exception(problem, str(path.parent))
        because = [outcome["place"]] if outcome["place"] else []
        fix = f"repair the file; python -c 'import {path.stem}' in its folder raises the same exception"
        if isinstance(problem, FileNotFoundError) and str(problem.filename).startswith(str(path.parent)):
            because.append("a run has a copy of this module and of those that it imports, and of no other file")
            fix = "the absolute path of that file, or its content in the module"
        raise Refused.of(
            f"{kind} {name}: {path.name} cannot be loaded: {outcome['error']}", because=because, fix=fix
        ) from problem
