"""Tries a plan's tools and environment in a separate process, isolated from the preflight.

    python -m grpo_recipes.worker.preflight.play_tools REQUEST EVENTS TRACE

As with rewards, each step is recorded before and after. Tools that are neither methods nor async run in a child process
of this one, with the limits of a training.
"""

import asyncio
import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.inputs import Refused
from grpo_recipes.worker.preflight._shared.hosted import Notes, Told, end_words, hosted, noted, of_event
from grpo_recipes.worker.preflight._shared.seen import Seen
from grpo_recipes.worker.preflight._shared.tools_seen import Described, Reset, ToolCall, ToolsSeen
from grpo_recipes.worker.tools.environments import NO_TOOLS
from grpo_recipes.worker.tools.tool_process import ToolFailed, answer_for_policy, bounded, error_text
from grpo_recipes.worker.tools.turns import Turns, load_turns
from grpo_recipes.worker.user_code.isolation import contained
from grpo_recipes.worker.user_code.reward_call import place_of, raised

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class PlayRequest:
    """The inputs of the player. plan: as in a run. rows: of the sample, for calls of `reset`.

    most_turns: calls to answer in a completion, None for all. time_limit: seconds for one step, and for all resets
    together, after which this process is killed.
    """

    plan: Plan
    user: str
    rows: list[dict[str, Any]]
    most_turns: int | None
    time_limit: float


class Player:
    """Loads, describes and calls tools, resets the environment, and records the results."""

    def __init__(self, request: PlayRequest, notes: Notes) -> None:
        self._request, self._notes = request, notes

    def run(self) -> None:
        """Runs all steps; a load error is the last event."""
        with self._notes.importing():
            from transformers.utils import get_json_schema
        loaded = self._step({"step": "load"}, self._load)
        if "found" not in loaded:
            return
        turns, environment, functions = loaded["found"]
        try:
            schemas = [self._described(function, get_json_schema) for function in functions.values()]
            self._notes.note({"event": "described", "tools": schemas})
            self._play(environment, functions, {one["name"]: one["schema"] for one in schemas})
        finally:
            turns.close()

    def _load(self) -> tuple[Turns, Any, dict[str, Function]]:
        turns = load_turns(replace(self._request.plan, rollout=None), Path(self._request.user))
        environment = turns.arguments["environment_factory"]() if "environment_factory" in turns.arguments else None
        turns.tally.begin("preflight")
        functions = [*turns.arguments.get("tools", ()), *_methods(environment)]
        return turns, environment, {each.__name__: each for each in functions}

    def _described(self, function: Function, schema_of: Callable[[Function], dict[str, Any]]) -> dict[str, Any]:
        try:
            return {"name": function.__name__, "schema": schema_of(function), "error": ""}
        except Exception as problem:
            return {"name": function.__name__, "schema": None, "error": f"{type(problem).__name__}: {problem}"}

    def _play(self, environment: Any, functions: dict[str, Function], schemas: Mapping[str, Any]) -> None:
        request = self._request
        if environment is not None:
            self._reset_all(environment)
            if "added" not in self._reset(environment, 0):
                return
        turns = [(turn.tool, turn.arguments) for turn in request.plan.scripted_turns if turn.tool is not None]
        beside: list[tuple[str, dict[str, Any]]] = []
        if not request.plan.scripted_turns:
            made = {name: made_calls(schema) for name, schema in schemas.items() if schema is not None}
            first = [(name, calls[0]) for name, calls in made.items()]
            turns = first[: request.most_turns]
            beside = first[len(turns) :] + [(name, one) for name, calls in made.items() for one in calls[1:]]
        for name, arguments in turns:
            self._call(functions, name, arguments, is_turn=True)
        if hasattr(environment, "get_reward"):
            self._reward(environment)
        for name, arguments in beside:
            self._call(functions, name, arguments, is_turn=False)

    def _reset_all(self, environment: Any) -> None:
        """Resets one object with each row in turn, as a training does; the first row comes last and is then played."""
        give_up = time.monotonic() + self._request.time_limit
        for row in range(len(self._request.rows) - 1, 0, -1):
            if time.monotonic() > give_up:
                break
            self._reset(environment, row)

    def _reset(self, environment: Any, row: int) -> dict[str, Any]:
        def observed() -> str:
            found = environment.reset(**self._request.rows[row]) if self._request.rows else environment.reset()
            if found is None:
                return ""
            if isinstance(found, list):
                return "".join(str(block.get("text", "")) for block in found)
            # As TRL adds it to the prompt: TypeError for anything that is not text.
            return str("" + found)

        return self._step({"step": "reset", "row": row}, observed, "added")

    def _call(self, functions: Mapping[str, Function], name: str, arguments: dict[str, Any], *, is_turn: bool) -> None:
        """Makes one call as TRL does."""

        def answered() -> Any:
            if name not in functions:
                raise ValueError(f"Tool {name} not found.")
            found = functions[name](**arguments)
            return answer_for_policy(asyncio.run(found) if inspect.iscoroutine(found) else found)

        self._step({"step": "call", "tool": name, "arguments": arguments, "is_turn": is_turn}, answered, "answer")

    def _reward(self, environment: Any) -> None:
        def judged() -> float | None:
            found = environment.get_reward()
            found = asyncio.run(found) if inspect.iscoroutine(found) else found
            return None if found is None else float(found)

        self._step({"step": "get_reward"}, judged)

    def _step(self, what: dict[str, Any], do: Callable[[], Any], key: str = "found") -> dict[str, Any]:
        """Runs one step, with an event before and after. key: of the result, absent if the step raised."""
        self._notes.note({"event": "calling", **what})
        began = time.perf_counter()
        given: dict[str, Any] = {}
        try:
            with self._notes.limited(), contained(what["step"], "preflight of"):
                given = {key: do()}
            outcome = {} if what["step"] == "load" else given
        except BaseException as problem:
            outcome = _failed(problem, what["step"], self._request.user)
        self._notes.note({"event": "called", **what, **outcome, "seconds": time.perf_counter() - began})
        return given


def _failed(problem: BaseException, step: str, user: str) -> dict[str, Any]:
    """Returns the event for an exception; for a call, with the error that the model gets."""
    if isinstance(problem, ToolFailed):
        return {"error": str(problem), "place": problem.place or place_of(problem, user), "by": problem.by or "raised"}
    if isinstance(problem, Refused):
        finding = problem.findings[0]
        return {"error": finding.message, "place": next(iter(finding.because), ""), "by": "raised"}
    seen = raised(problem, user)
    error = error_text(problem) if step == "call" else bounded(seen["error"])
    return {"error": error, "place": seen["place"], "by": "raised"}


def _methods(environment: Any) -> list[Function]:
    """Returns the methods that are tools, as TRL finds them. Source: trl 1.16.0 grpo_trainer.py (__init__)."""
    members = inspect.getmembers(type(environment), inspect.isfunction) if environment is not None else []
    names = [name for name, _ in members if not name.startswith("_") and name not in NO_TOOLS]
    return [getattr(environment, name) for name in names]


def main(arguments: Sequence[str]) -> int:
    """Runs one request to its end; the tools themselves may end the process earlier."""
    with noted(arguments) as (request, notes):
        Player(request, notes).run()
        notes.note({"event": "done"})
    return 0


CALLS_OF_A_TOOL = 3
_WORDS = ("example", "another", "third")
_NUMBERS = (7, 2, 31)


def made_calls(schema: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns up to three different sets of arguments for a tool with this JSON schema, of matching types.

    No argument is text from the data, which a tool might execute.
    """
    parameters = schema.get("function", {}).get("parameters", {})
    properties = {name: one for name, one in parameters.get("properties", {}).items() if name != "return"}
    required = [name for name in parameters.get("required", []) if name in properties] or list(properties)
    found: list[dict[str, Any]] = []
    for number in range(CALLS_OF_A_TOOL):
        arguments = {name: _value(properties[name], number) for name in required}
        if arguments not in found:
            found.append(arguments)
    return found


def _value(schema: Mapping[str, Any], number: int) -> Any:
    """Returns a value for a schema, different for each number if there are several."""
    if schema.get("enum"):
        return schema["enum"][number % len(schema["enum"])]
    if schema.get("anyOf"):
        return _value(schema["anyOf"][0], number)
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "null")
    match kind:
        case "integer":
            return _NUMBERS[number]
        case "number":
            return _NUMBERS[number] + 0.5
        case "boolean":
            return number % 2 == 0
        case "null":
            return None
        case "array":
            if "prefixItems" in schema:
                return [_value(one, number) for one in schema["prefixItems"]]
            return [_value(schema.get("items", {}), number)]
        case "object":
            return {_WORDS[number]: _value(schema.get("additionalProperties") or {}, number)}
    return _WORDS[number]


# The preflight's side: it starts that process and reads the results.


# After a call's time limit the tool's process is killed, and the next call loads a new one; a method is interrupted. If
# neither helps, this process is killed.
LATER_S = 5.0
MOST_REPLIES = "max_tool_calling_iterations"


def has_tools(seen: Seen) -> bool:
    """Whether the plan has anything that a model could call."""
    return bool(seen.plan.tools) or bool(seen.plan.all_environments)


def played(seen: Seen, rows: list[dict[str, Any]], folder: Path) -> ToolsSeen:
    """Tries the tools and returns the results. rows: for which an environment is reset."""
    plan, most = seen.plan, seen.plan.arguments.GRPOConfig.get(MOST_REPLIES)
    environment = plan.environment_class
    timeouts = [*(tool.timeout for tool in plan.tools), *([environment.timeout] if environment is not None else [])]
    limit = max([seen.options.time_limit, *(timeout + LATER_S for timeout in timeouts)])
    request = PlayRequest(
        plan,
        str(folder / "worker" / "user"),
        rows,
        most if isinstance(most, int) else None,
        limit,
    )
    paths = [folder / f"tools.{kind}" for kind in ("request", "events", "trace")]
    outcome = hosted("preflight.play_tools", request, paths, request.user, request.time_limit, None)
    return _seen(seen, outcome, limit)


def _seen(seen: Seen, told: Told, limit: float) -> ToolsSeen:
    steps = [event for event in told.events if event["event"] == "called"]
    last = told.events[-1] if told.events else {"event": "calling", "step": "load"}
    error = f"it {end_words(told.end, limit)}"
    if last["event"] == "calling":
        steps.append({**last, "by": "killed", "end": told.end, "place": told.place, "error": error})
    elif last["event"] in ("importing", "imported"):
        steps.append({"step": "load", "error": error})
    described: list[dict[str, Any]] = next(
        (event["tools"] for event in told.events if event["event"] == "described"), []
    )
    loading = next((step for step in steps if step["step"] == "load"), {})
    rewards = [step for step in steps if step["step"] == "get_reward"]
    answers = [turn.answer for turn in seen.plan.scripted_turns if turn.answer is not None]
    return ToolsSeen(
        tools=tuple(Described(one["name"], one["schema"], one["error"]) for one in described),
        calls=tuple(of_event(ToolCall, step) for step in steps if step["step"] == "call"),
        resets=tuple(of_event(Reset, step) for step in steps if step["step"] == "reset"),
        scripted=bool(seen.plan.scripted_turns),
        time_limit=limit,
        answer=answers[0] if answers else None,
        problem=str(loading.get("error", "")),
        place=str(loading.get("place", "")),
        get_reward=next((step.get("found") for step in rewards), None),
        reward_problem=next(
            (f"{step['error']} {step.get('place', '')}".rstrip() for step in rewards if "error" in step), ""
        ),
    )
