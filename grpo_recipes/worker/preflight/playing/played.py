"""Has the tools of a plan tried in a process of its own, and says what came of it."""

from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

from grpo_recipes.worker.preflight._shared.hosted import Told, end_words, hosted
from grpo_recipes.worker.preflight._shared.seen import Rows, Seen
from grpo_recipes.worker.preflight._shared.tools_seen import Described, Reset, ToolCall, ToolsSeen
from grpo_recipes.worker.preflight.playing.play import PlayRequest

# Beyond the limit of a call its tool's process is ended, and another one is loaded by the next call; a method is ended
# where it is. What comes back from neither is ended from outside.
LATER_S = 5.0
T = TypeVar("T", ToolCall, Reset)
MOST_REPLIES = "max_tool_calling_iterations"


def has_tools(seen: Seen) -> bool:
    """Whether there is anything that a model could call."""
    return bool(seen.plan.tools) or seen.plan.environment_class is not None


def played(seen: Seen, data: Rows, folder: Path) -> ToolsSeen:
    """What the tools answer. data: whose sample an environment is reset for."""
    plan, most = seen.plan, seen.plan.arguments.GRPOConfig.get(MOST_REPLIES)
    environment = plan.environment_class
    timeouts = [*(tool.timeout for tool in plan.tools), *([environment.timeout] if environment is not None else [])]
    limit = max([seen.options.time_limit, *(timeout + LATER_S for timeout in timeouts)])
    request = PlayRequest(
        plan,
        str(folder / "worker" / "user"),
        [data.rows[place] for place in seen.sample],
        most if isinstance(most, int) else None,
        limit,
    )
    paths = [folder / f"tools.{kind}" for kind in ("request", "events", "trace")]
    told = hosted("preflight.playing.play", request, paths, request.user, request.time_limit, None)
    return _seen(seen, told, limit)


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
        calls=tuple(_of(ToolCall, step) for step in steps if step["step"] == "call"),
        resets=tuple(_of(Reset, step) for step in steps if step["step"] == "reset"),
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


def _of(kind: type[T], step: dict[str, Any]) -> T:
    """What a step showed, by the names of its fields."""
    known = {field.name for field in fields(kind)}
    return kind(**{name: value for name, value in step.items() if name in known})
