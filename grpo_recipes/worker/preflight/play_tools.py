"""Tries a plan's tools and environment in a separate process, isolated from the preflight.

    python -m grpo_recipes.worker.preflight.play_tools REQUEST EVENTS TRACE

As with rewards, each step is recorded before and after. Tools that are neither methods nor async run in a child process
of this one, with the limits of a training.
"""

import asyncio
import inspect
import itertools
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.preflight._shared.hosted import Notes, open_request
from grpo_recipes.worker.preflight.made_calls import examples, made_calls
from grpo_recipes.worker.tools.environments import NO_TOOLS
from grpo_recipes.worker.tools.tool_process import ToolFailed, answer_for_policy, cut_text, error_text
from grpo_recipes.worker.tools.turns import Turns, load_turns
from grpo_recipes.worker.user_code.isolation import contain
from grpo_recipes.worker.user_code.reward_call import outcome_of_exception, place_of

Function = Callable[..., Any]
RESETS_OF_A_ROW = 8
PLAIN = (bool, int, float, str)
STATE = (*PLAIN, type(None), list, dict, set, tuple)
# Attributes that are meant to outlast an episode, by their names.
LASTING = re.compile("cache|memo|client|connection|session|pool|lock|total|lifetime|stat|log|episode", re.IGNORECASE)
_RISES = re.compile("id$|time|clock|token", re.IGNORECASE)


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
        self._factory: Function = object
        self._changing: set[str] | None = None

    def run(self) -> None:
        """Runs all steps; a load error is the last event."""
        with self._notes.importing():
            from transformers.utils import get_json_schema
        loaded = self._step({"step": "load"}, self._load)
        if "found" not in loaded:
            return
        turns, environment, functions = loaded["found"]
        try:
            schemas = [self._describe(function, get_json_schema) for function in functions.values()]
            self._notes.note({"event": "described", "tools": schemas})
            self._play(environment, functions, {schema["name"]: schema["schema"] for schema in schemas})
        finally:
            turns.close()

    def _load(self) -> tuple[Turns, Any, dict[str, Function]]:
        turns = load_turns(replace(self._request.plan, rollout=None), Path(self._request.user))
        environment = None
        if "environment_factory" in turns.arguments:
            self._factory = turns.arguments["environment_factory"]
            environment = self._factory()
        turns.tally.begin("preflight")
        functions = [*turns.arguments.get("tools", ()), *_methods(environment)]
        return turns, environment, {each.__name__: each for each in functions}

    def _describe(self, function: Function, schema_of: Callable[[Function], dict[str, Any]]) -> dict[str, Any]:
        try:
            return {"name": function.__name__, "schema": schema_of(function), "error": ""}
        except Exception as problem:
            return {"name": function.__name__, "schema": None, "error": f"{type(problem).__name__}: {problem}"}

    def _play(self, environment: Any, functions: dict[str, Function], schemas: Mapping[str, Any]) -> None:
        request = self._request
        if environment is not None:
            self._reset_all(environment)
            self._step({"step": "reset again"}, lambda: self._varying(environment))
            if "added" not in self._reset(environment, 0):
                return
        turns = [(turn.tool, turn.arguments) for turn in request.plan.scripted_turns if turn.tool is not None]
        beside: list[tuple[str, dict[str, Any]]] = []
        if not request.plan.scripted_turns:
            made = {name: made_calls(schema) for name, schema in schemas.items() if schema is not None}
            first = [(name, calls[0]) for name, calls in made.items()]
            turns = first[: request.most_turns]
            beside = first[len(turns) :] + [(name, call) for name, calls in made.items() for call in calls[1:]]
        for name, arguments in turns:
            is_example = not request.plan.scripted_turns and arguments == examples(schemas[name])
            self._call(functions, name, arguments, is_turn=True, is_example=is_example)
        if hasattr(environment, "get_reward"):
            self._reward(environment)
        for name, arguments in beside:
            self._call(functions, name, arguments, is_turn=False)
        if environment is not None and self._changing is not None and request.rows:
            self._step({"step": "compare"}, lambda: self._leftovers(environment))

    def _leftovers(self, environment: Any) -> dict[str, list[str]]:
        """Returns what differs after a reset between a new object and the played one: attributes, or get_reward.

        Attributes that a reset changes by itself are left out, and so are names that are meant to last.
        """
        fresh, changing = self._factory(), self._changing or set()
        for each in (fresh, environment):
            each.reset(**self._request.rows[0])
        values = {}
        for name, value in vars(fresh).items():
            both = [cut_text(repr(value)), cut_text(repr(vars(environment).get(name)))]
            if isinstance(value, STATE) and name not in changing and both[0] != both[1]:
                values[name] = both
        if hasattr(fresh, "get_reward") and not inspect.iscoroutinefunction(fresh.get_reward):
            before, again, after = (repr(each.get_reward()) for each in (fresh, fresh, environment))
            values |= {"get_reward": [before, after]} if before == again != after else {}
        return {name: both for name, both in values.items() if not LASTING.search(name)}

    def _reset_all(self, environment: Any) -> None:
        """Resets one object with each row in turn, as a training does; the first row comes last and is then played."""
        give_up = time.monotonic() + self._request.time_limit
        for row in range(len(self._request.rows) - 1, 0, -1):
            if time.monotonic() > give_up:
                break
            self._reset(environment, row)

    def _varying(self, environment: Any) -> dict[str, list[str]]:
        """Returns the plain attributes that differ between resets with the first row, with their values.

        Numbers that only rise, as counters and times do, are left out, and so are identifiers.
        """
        states: list[dict[str, Any]] = []
        give_up = time.monotonic() + self._request.time_limit / 4
        while self._request.rows and len(states) < RESETS_OF_A_ROW:
            if time.monotonic() > give_up:
                return {}
            environment.reset(**self._request.rows[0])
            states.append({name: value for name, value in vars(environment).items() if isinstance(value, PLAIN)})
        varying = {}
        self._changing = set()
        for name in states[0] if states else ():
            values = [state.get(name) for state in states]
            if len({*map(repr, values)}) > 1:
                self._changing.add(name)
            if name in self._changing and not _RISES.search(name) and not _is_rising(values):
                varying[name] = [cut_text(repr(value)) for value in values]
        return varying

    def _reset(self, environment: Any, row: int) -> dict[str, Any]:
        def observe() -> str:
            answer = environment.reset(**self._request.rows[row]) if self._request.rows else environment.reset()
            if answer is None:
                return ""
            if isinstance(answer, list):
                return "".join(str(block.get("text", "")) for block in answer)
            # As TRL adds it to the prompt: TypeError for anything that is not text.
            return str("" + answer)

        return self._step({"step": "reset", "row": row}, observe, "added")

    def _call(
        self,
        functions: Mapping[str, Function],
        name: str,
        arguments: dict[str, Any],
        *,
        is_turn: bool,
        is_example: bool = False,
    ) -> None:
        """Makes one call as TRL does."""

        def call_function() -> Any:
            if name not in functions:
                raise ValueError(f"Tool {name} not found.")
            answer = functions[name](**arguments)
            return answer_for_policy(asyncio.run(answer) if inspect.iscoroutine(answer) else answer)

        what = {"step": "call", "tool": name, "arguments": arguments, "is_turn": is_turn, "is_example": is_example}
        self._step(what, call_function, "answer")

    def _reward(self, environment: Any) -> None:
        def judge() -> float | None:
            reward = environment.get_reward()
            reward = asyncio.run(reward) if inspect.iscoroutine(reward) else reward
            return None if reward is None else float(reward)

        self._step({"step": "get_reward"}, judge)

    def _step(self, what: dict[str, Any], do: Callable[[], Any], key: str = "found") -> dict[str, Any]:
        """Runs one step, with an event before and after. key: of the result, absent if the step raised."""
        self._notes.note({"event": "calling", **what})
        began = time.perf_counter()
        given: dict[str, Any] = {}
        try:
            with self._notes.limit_step(), contain(what["step"], "preflight of"):
                given = {key: do()}
            outcome = {} if what["step"] == "load" else given
        except BaseException as problem:
            outcome = _failure_event(problem, what["step"], self._request.user)
        self._notes.note({"event": "called", **what, **outcome, "seconds": time.perf_counter() - began})
        return given


def _is_rising(values: Sequence[Any]) -> bool:
    are_numbers = all(isinstance(value, int | float) for value in values)
    return are_numbers and all(before < after for before, after in itertools.pairwise(values))


def _failure_event(problem: BaseException, step: str, user: str) -> dict[str, Any]:
    """Returns the event for an exception; for a call, with the error that the model gets."""
    if isinstance(problem, ToolFailed):
        return {"error": str(problem), "place": problem.place or place_of(problem, user), "by": problem.by or "raised"}
    if isinstance(problem, Refused):
        finding = problem.findings[0]
        return {"error": finding.message, "place": next(iter(finding.because), ""), "by": "raised"}
    event = outcome_of_exception(problem, user)
    error = error_text(problem) if step == "call" else cut_text(event["error"])
    return {"error": error, "place": event["place"], "by": "raised"}


def _methods(environment: Any) -> list[Function]:
    """Returns the methods that are tools, as TRL finds them. Source: trl's grpo_trainer.py (__init__)."""
    members = inspect.getmembers(type(environment), inspect.isfunction) if environment is not None else []
    names = [name for name, _ in members if not name.startswith("_") and name not in NO_TOOLS]
    return [getattr(environment, name) for name in names]


def main(arguments: Sequence[str]) -> int:
    """Runs one request to its end; the tools themselves may end the process earlier."""
    with open_request(arguments) as (request, notes):
        Player(request, notes).run()
        notes.note({"event": "done"})
    return 0
