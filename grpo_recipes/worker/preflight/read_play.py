"""Starts the process that tries the tools, and makes completions of the results."""

from pathlib import Path
from typing import Any

from grpo_recipes.worker.data.checked_rows import ENVIRONMENT
from grpo_recipes.worker.preflight._shared.hosted import Told, end_words, of_event, run_part
from grpo_recipes.worker.preflight._shared.reward_seen import form_of_right
from grpo_recipes.worker.preflight._shared.seen import Seen, is_conversational
from grpo_recipes.worker.preflight._shared.tools_seen import (
    PLAYED,
    RIGHT_AFTER_CALLS,
    Described,
    Reset,
    ToolCall,
    ToolsSeen,
)
from grpo_recipes.worker.preflight.play_tools import PlayRequest

# After a call's time limit the tool's process is killed, and the next call loads a new one; a method is interrupted. If
# neither helps, this process is killed.
LATER_S = 5.0
MOST_REPLIES = "max_tool_calling_iterations"


def has_tools(inputs: Seen) -> bool:
    """Whether the plan has anything that a model could call."""
    return bool(inputs.plan.tools) or bool(inputs.plan.all_environments)


def play(inputs: Seen, rows: list[dict[str, Any]], folder: Path) -> ToolsSeen:
    """Tries the tools and returns the results. rows: for which an environment is reset."""
    plan, most = inputs.plan, inputs.plan.arguments.GRPOConfig.get(MOST_REPLIES)
    environment = plan.environment_class
    timeouts = [*(tool.timeout for tool in plan.tools), *([environment.timeout] if environment is not None else [])]
    limit = max([inputs.options.time_limit, *(timeout + LATER_S for timeout in timeouts)])
    request = PlayRequest(
        plan,
        str(folder / "worker" / "user"),
        rows,
        most if isinstance(most, int) else None,
        limit,
    )
    paths = [folder / f"tools.{kind}" for kind in ("request", "events", "trace")]
    outcome = run_part("preflight.play_tools", request, paths, request.user, request.time_limit, None)
    return _summarize(inputs, outcome, limit)


def _summarize(inputs: Seen, outcome: Told, limit: float) -> ToolsSeen:
    steps = [event for event in outcome.events if event["event"] == "called"]
    last = outcome.events[-1] if outcome.events else {"event": "calling", "step": "load"}
    error = f"it {end_words(outcome.end, limit)}"
    if last["event"] == "calling":
        steps.append({**last, "by": "killed", "end": outcome.end, "place": outcome.place, "error": error})
    elif last["event"] in ("importing", "imported"):
        steps.append({"step": "load", "error": error})
    described: list[dict[str, Any]] = next(
        (event["tools"] for event in outcome.events if event["event"] == "described"), []
    )
    loading = next((step for step in steps if step["step"] == "load"), {})
    rewards = [step for step in steps if step["step"] == "get_reward"]
    answers = [turn.answer for turn in inputs.plan.scripted_turns if turn.answer is not None]
    return ToolsSeen(
        tools=tuple(Described(tool["name"], tool["schema"], tool["error"]) for tool in described),
        calls=tuple(of_event(ToolCall, step) for step in steps if step["step"] == "call"),
        resets=tuple(of_event(Reset, step) for step in steps if step["step"] == "reset"),
        scripted=bool(inputs.plan.scripted_turns),
        time_limit=limit,
        answer=answers[0] if answers else None,
        varying=next((step["found"] for step in steps if step["step"] == "reset again" and "found" in step), {}),
        leftovers=next((step["found"] for step in steps if step["step"] == "compare" and "found" in step), {}),
        problem=str(loading.get("error", "")),
        place=str(loading.get("place", "")),
        get_reward=next((step.get("found") for step in rewards), None),
        reward_problem=next(
            (f"{step['error']} {step.get('place', '')}".rstrip() for step in rewards if "error" in step), ""
        ),
    )


def play_rows(
    inputs: Seen, rows: list[dict[str, Any]], texts: dict[str, list[str]]
) -> dict[str, list[list[dict[str, Any]]]]:
    """Returns each row's played completions as messages; their final messages are added to the trial texts."""
    if inputs.tools is None or not inputs.tools.turns or not all(is_conversational(row["prompt"]) for row in rows):
        return {}
    form, own = form_of_right(texts), inputs.tools.answer
    right = texts[form] if form in texts else ["" for _ in rows]
    ends = {PLAYED: right if own is None else [own for _ in rows]}
    if form in texts and (own is not None or not inputs.tools.has_end):
        ends = {RIGHT_AFTER_CALLS: right, **ends}
    texts.update(ends)
    tools = [inputs.tools_of.get(str(row.get(ENVIRONMENT)), inputs.tools) for row in rows]
    return {
        case: [
            of_row.completion(text if case == RIGHT_AFTER_CALLS or of_row.has_end else None)
            for of_row, text in zip(tools, answers, strict=True)
        ]
        for case, answers in ends.items()
    }
