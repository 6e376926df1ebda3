"""The tools of the plan as TRL takes them: functions with the user's name, signature and docstring."""

import asyncio
import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.plan_sections import Tool
from grpo_recipes.worker._shared.inputs import Refused
from grpo_recipes.worker.tools.tally import Tally
from grpo_recipes.worker.tools.tool_process import Result, ToolFailed, ToolProcess, error_text, told
from grpo_recipes.worker.user_code.contained import contained
from grpo_recipes.worker.user_code.outcome import place_of, raised
from grpo_recipes.worker.user_code.user_modules import checked_sources, user_module

ToolFunction = Callable[..., Any]


class Tools:
    """The tools of a training. functions: in the order of the plan. close() when the training is over."""

    def __init__(self, functions: list[ToolFunction], process: ToolProcess | None) -> None:
        self.functions, self._process = functions, process

    def close(self) -> None:
        """Ends the process of the tools."""
        if self._process is not None:
            self._process.close()


def check_tool_files(plan: Plan, user: Path) -> None:
    """Raises Refused if a file of a tool, the environment or the rollout is not the planned one; runs none of them."""
    for tool in plan.tools:
        checked_sources(tool, user, "tool")
    if plan.environment_class is not None:
        checked_sources(plan.environment_class, user, "environment")
    if plan.rollout is not None:
        checked_sources(plan.rollout, user, "rollout")


def load_tools(tools: tuple[Tool, ...], user: Path, tally: Tally) -> Tools:
    """The functions that TRL calls. Those that are not asynchronous are called in a process of their own.

    It is started here, so that a file that cannot be loaded there ends the run before its first step. Raises Refused.
    """
    for tool in tools:
        tally.add(tool.name)
    sources = {tool.name: (tool.target.rpartition(":")[2], checked_sources(tool, user, "tool")) for tool in tools}
    own = {tool.name: _function(tool, *sources[tool.name]) for tool in tools}
    apart = {tool.name: sources[tool.name] for tool in tools if not inspect.iscoroutinefunction(own[tool.name])}
    process = ToolProcess(apart, user) if apart else None
    if process is not None:
        _start(process, tuple(apart))
    functions = [
        _beside(tool, own[tool.name], tally, str(user))
        if process is None or tool.name not in apart
        else _apart(tool, own[tool.name], process, tally)
        for tool in tools
    ]
    return Tools(functions, process)


def _function(tool: Tool, name: str, sources: dict[Path, bytes]) -> ToolFunction:
    module = loaded_module(tool.name, "tool", sources)
    function = getattr(module, name, None)
    if not callable(function):
        raise Refused.of(f"tool {tool.name}: {module.__file__} has no function {name}")
    if tool.is_async is not None and inspect.iscoroutinefunction(function) != tool.is_async:
        kinds = ("is not asynchronous", "is asynchronous")
        raise Refused.of(
            f"tool {tool.name}: {name} {kinds[not tool.is_async]}",
            because=f"the plan was made for one that {kinds[tool.is_async]}",
            fix="plan again; a decorator that hides `async def` has to keep it",
        )
    found: ToolFunction = function
    return found


def _start(process: ToolProcess, names: tuple[str, ...]) -> None:
    try:
        process.start()
    except ToolFailed as problem:
        process.close()
        raise Refused.of(
            f"tools {', '.join(names)}: their process could not load them",
            because=[str(problem), *([problem.place] if problem.place else [])],
            fix="a file that imports and computes little at its beginning; tools have 1 GiB of memory",
        ) from problem


def _apart(tool: Tool, function: ToolFunction, process: ToolProcess, tally: Tally) -> ToolFunction:
    @functools.wraps(function)
    def called(**arguments: Any) -> Result:
        with tally.counted(tool.name):
            return process.call(tool.name, arguments, tool.timeout, tally.next_seed())

    return _named(called, tool)


def _beside(tool: Tool, function: ToolFunction, tally: Tally, user: str) -> ToolFunction:
    """An asynchronous tool, in the trainer's own process as TRL runs it; one that does not wait cannot be ended."""

    async def answered(**arguments: Any) -> Any:
        try:
            return await function(**arguments)
        except asyncio.CancelledError:
            raise
        except BaseException as problem:  # SystemExit would end the loop that all tools run in
            raise ToolFailed(error_text(problem), place_of(problem, user)) from problem

    @functools.wraps(function)
    async def called(**arguments: Any) -> Result:
        with tally.counted(tool.name):
            try:
                return told(await asyncio.wait_for(answered(**arguments), tool.timeout))
            except TimeoutError:
                text = f"{tool.name} took longer than {tool.timeout:g} seconds and was ended"
                raise ToolFailed(text, by="time") from None

    return _named(called, tool)


def _named(function: ToolFunction, tool: Tool) -> ToolFunction:
    function.__name__ = tool.name
    return function


def loaded_module(name: str, kind: str, sources: dict[Path, bytes]) -> ModuleType:
    """The first of the files, which is the own one of what is called so. Raises Refused for whatever it raises."""
    path = next(iter(sources))
    try:
        with contained(name, kind):
            return user_module(sources)
    except Refused:
        raise
    except Exception as problem:
        found = raised(problem, str(path.parent))
        raise Refused.of(
            f"{kind} {name}: {path.name} cannot be loaded: {found['error']}",
            because=[found["place"]] if found["place"] else [],
            fix=f"a file that can be imported: python -c 'import {path.stem}' in its folder raises the same",
        ) from problem
