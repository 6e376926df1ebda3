"""Runs each reward in a process of its own, and says what came of its calls."""

from pathlib import Path
from typing import Any

from grpo_recipes.worker.preflight._shared.hosted import hosted
from grpo_recipes.worker.preflight._shared.reward_seen import Call, CalledCompletion, RewardSeen
from grpo_recipes.worker.preflight.host import Request


def tried(request: Request, index: int, folder: Path, memory_limit: int | None) -> RewardSeen:
    """Calls one reward and returns what was seen. folder: for the files of the exchange."""
    paths = [folder / f"reward-{index}.{kind}" for kind in ("request", "events", "trace")]
    told = hosted("preflight.host", request, paths, request.user, request.time_limit, memory_limit)
    return _seen(request, index, told.events, told.end, told.place)


def _seen(request: Request, index: int, events: list[dict[str, Any]], end: str, place: str) -> RewardSeen:
    calls = [_call(event) for event in events if event["event"] == "called"]
    steps = [event for event in events if event["event"] not in ("importing", "imported")]
    last = steps[-1] if steps else {"event": "calling", "name": "load", "shape": "own", "entries": []}
    if last["event"] == "loaded":
        last = {"event": "calling", "name": "one row", "shape": "own", "entries": []}
    if last["event"] == "calling" and end:
        calls.append(_call({**last, "kind": "killed", "by": end, "place": place}))
    loads = [call for call in calls if call.name == "load"]
    parameters: list[str] = next((event["parameters"] for event in events if event["event"] == "loaded"), [])
    reward = request.reward
    return RewardSeen(
        index,
        reward.name,
        reward.kind,
        reward.weight,
        calls=tuple(call for call in calls if call.name != "load"),
        parameters=tuple(parameters),
        load_error=loads[0] if loads else None,
    )


def _call(event: dict[str, Any]) -> Call:
    names = ("name", "shape", "kind", "seconds", "error", "place", "unexpected", "by")
    return Call(
        entries=tuple(CalledCompletion(row, case) for row, case in event["entries"]),
        values=tuple(event.get("values", ())),
        missing=tuple(event.get("missing", ())),
        **{name: event[name] for name in names if name in event},
    )
