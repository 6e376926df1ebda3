"""Runs one reward in a separate process, isolated from the preflight.

    python -m grpo_recipes.worker.preflight.host REQUEST EVENTS TRACE

REQUEST is a pickle of Request; hosted.py describes the others.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from grpo_recipes.contract.plan import Reward
from grpo_recipes.worker.preflight._shared.hosted import Notes, of_event, open_request
from grpo_recipes.worker.preflight._shared.reward_seen import CAUGHT, GOLD, RETYPED, Call, pays_golds
from grpo_recipes.worker.preflight.caught_errors import CaughtErrors
from grpo_recipes.worker.user_code.reward_call import call_reward, loading_failed, parameters_of
from grpo_recipes.worker.user_code.reward_functions import load_rewards

# The share of a call's time limit that the call over the whole sample should take.
SHARE = 0.4
MOST_RETYPED = 8
NUMBER = re.compile(r"-?\d{1,15}(\.\d{1,15})?")


@dataclass(frozen=True, slots=True)
class Request:
    """The inputs of calls. rows: the sample; prompts in their own shape. texts, ids: per kind of completion, by row.

    played: for kinds with several messages, these instead of the text, by row. group: minimum completions per prompt,
    adjacent in a batch. passed: names that TRL passes besides the columns. prefills: of the rows.
    """

    reward: Reward
    user: str
    rows: list[dict[str, Any]]
    texts: dict[str, list[str]]
    ids: dict[str, list[list[int]]]
    conversational: bool
    group: int
    passed: tuple[str, ...]
    kept: tuple[str, ...]
    time_limit: float
    state: dict[str, Any]
    played: dict[str, list[list[dict[str, Any]]]] = field(default_factory=dict)
    prefills: list[str] = field(default_factory=list)


class Host:
    """Calls one reward repeatedly, and records the results."""

    def __init__(self, request: Request, function: Any, notes: Notes) -> None:
        self._request, self._function, self._notes = request, function, notes

    def run(self) -> None:
        """Calls one row twice, then all of them twice; on failure, tries the kinds of completions.

        If it pays no right answer, a few rows follow with columns of other types, which shows a wrong comparison.
        """
        cases = list(self._request.texts)
        first = self.call("one row", cases, rows=1)
        if first["kind"] != "values":
            self._look_into(cases, rows=1)
            return
        # The first call also imports what the reward needs, which says nothing about the others.
        again = self.call("one row again", cases, rows=1)
        count = self._fitting(min(first["seconds"], again["seconds"]))
        every = self.call("all", cases, rows=count)
        if every["kind"] != "values":
            self._look_into(cases, rows=count)
            return
        self.call("again", cases, rows=count)
        if len(set(map(repr, every["values"]))) == 1:
            self.call("all", cases, rows=count, shape="other")
            self.call(CAUGHT, cases, rows=1, errors=CaughtErrors(self._request.user))
        if GOLD in cases and not pays_golds(of_event(Call, every)):
            self.call("all", cases, rows=min(count, MOST_RETYPED), shape=RETYPED)

    def _look_into(self, cases: list[str], rows: int) -> None:
        """Tries each kind of completion separately, then all of them in the other shape."""
        for case in cases:
            self.call(case, [case], rows=rows)
        self.call("one row", cases, rows=1, shape="other")

    def _fitting(self, seconds: float) -> int:
        """Returns how many rows fit in the calls over the sample."""
        rows = len(self._request.rows)
        return max(1, min(rows, int(self._request.time_limit * SHARE / max(seconds, 1e-6))))

    def call(
        self, name: str, cases: list[str], *, rows: int, shape: str = "own", errors: CaughtErrors | None = None
    ) -> dict[str, Any]:
        """Makes one call, with an event before and after. errors: records those that the reward catches."""
        request = self._request
        size = -(-len(cases) // request.group) * request.group
        entries = [(row, cases[index % len(cases)]) for row in range(rows) for index in range(size)]
        conversational = request.conversational if shape != "other" else not request.conversational
        retyped = request if shape != RETYPED else replace(request, rows=[_retyped(row) for row in request.rows[:rows]])
        given = _arguments(
            retyped, entries, LazyState(request.state, self._notes.importing), conversational=conversational
        )
        self._notes.note({"event": "calling", "name": name, "shape": shape, "entries": entries})
        with self._notes.limit_step(), errors or nullcontext():
            outcome = call_reward(self._function, given, len(entries), request.user, self._notes.importing())
        outcome |= {} if errors is None else {"caught": errors.counts}
        event = {"event": "called", "name": name, "shape": shape, "entries": entries, **outcome}
        self._notes.note(event)
        return event


def _arguments(
    request: Request, entries: list[tuple[int, str]], state: "LazyState", *, conversational: bool
) -> dict[str, Any]:
    """Returns the keywords of one call. Every list has a value for each entry."""
    texts = [request.texts[case][row] for row, case in entries]
    prompts = [request.rows[row]["prompt"] for row, _ in entries]
    if conversational != request.conversational:
        prompts = [_other_shape(prompt) for prompt in prompts]
    columns = {
        name: [request.rows[row][name] for row, _ in entries] for name in request.rows[0] if name not in request.kept
    }
    own = {
        "prompts": prompts,
        "completions": [_as_messages(request, case, row) for row, case in entries] if conversational else texts,
        "completion_ids": [request.ids[case][row] for row, case in entries],
        "trainer_state": state,
        "log_extra": _ignore,
        "log_metric": _ignore,
    }
    return {**columns, **{name: own[name] for name in request.passed if name in own}}


def _retyped(row: dict[str, Any]) -> dict[str, Any]:
    """Returns a row with each number as text, and each text of a number as the number."""
    other: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, int | float) and not isinstance(value, bool):
            other[name] = f"{value:.15g}"
        elif name != "prompt" and isinstance(value, str) and NUMBER.fullmatch(value):
            other[name] = float(value) if "." in value else int(value)
    return row | other


def _prefills(request: Request) -> Callable[[Sequence[Any]], list[str]]:
    """Returns what finds the prefill of the sample's prompts; other shapes of them have none."""
    known = {repr(row["prompt"]): text for row, text in zip(request.rows, request.prefills, strict=False)}
    return lambda prompts: [known.get(repr(prompt), "") for prompt in prompts]


def _as_messages(request: Request, case: str, row: int) -> list[dict[str, Any]]:
    """Returns a completion as messages, as TRL passes it to rewards."""
    text = [{"role": "assistant", "content": request.texts[case][row]}]
    return request.played[case][row] if case in request.played else text


def _other_shape(prompt: Any) -> Any:
    if isinstance(prompt, str):
        return [{"role": "user", "content": prompt}]
    return "\n".join(str(message.get("content") or "") for message in prompt or [])


def _ignore(*_: Any, **__: Any) -> None:
    """Replaces TRL's log_extra and log_metric."""


class LazyState:
    """Stands in for transformers' TrainerState before the first step, and imports it only when it is used."""

    def __init__(self, values: dict[str, Any], importing: Callable[[], AbstractContextManager[Any]]) -> None:
        self._values, self._importing, self._state = values, importing, None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if self._state is None:
            with self._importing():
                from transformers import TrainerState
            self._state = TrainerState(**self._values)
        return getattr(self._state, name)


def main(arguments: Sequence[str]) -> int:
    """Runs one request to its end; the reward itself may end the process earlier."""
    with open_request(arguments) as (request, notes):
        notes.note({"event": "calling", "name": "load", "shape": "own", "entries": []})
        try:
            with notes.limit_step():
                (function,) = load_rewards((request.reward,), Path(request.user), prefill=_prefills(request))
        except BaseException as problem:
            notes.note({"event": "called", "name": "load", "entries": [], **loading_failed(problem, request.user)})
            return 0
        notes.note({"event": "loaded", "parameters": parameters_of(function, request.reward)})
        Host(request, function, notes).run()
        notes.note({"event": "done"})
    return 0
