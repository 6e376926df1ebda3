"""What an event of a run says, in words: the same ones in train.log, on a screen, and where a run is watched."""

from collections.abc import Mapping

from grpo_recipes.contract.metric_names import CLIPPED_RATIO
from grpo_recipes.contract.metrics import Event, evaluation_text, number, of_set, reward_as_drawn, without_variance
from grpo_recipes.contract.run_verdict import is_at_best, right_text

GAP = "  "


def clock(seconds: float) -> str:
    """Seconds as 0:02:05; days are counted as hours."""
    whole = round(max(seconds, 0))
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def step_head(event: Event, max_steps: float | None) -> str:
    """Which step an event is of: "step 3/40"; "" for one of no step."""
    step = number(event, "step")
    of = f"/{max_steps:.0f}" if max_steps is not None else ""
    return "" if step is None else f"step {step:.0f}{of}"


def step_parts(event: Event, seconds_left: float | None) -> dict[str, str]:
    """One step in words, by what they say; what the event does not tell is left out."""
    parts = {}
    reward, seconds = reward_as_drawn(event), number(event, "step_time")
    without, truncated = without_variance(event), number(event, CLIPPED_RATIO)
    if reward is not None:
        parts["reward"] = f"reward {reward:.3f}"
    if without is not None:
        parts["groups"] = f"groups without variance {without:.0%}"
    if truncated is not None:
        parts["truncated"] = f"truncated {truncated:.0%}"
    if seconds is not None:
        parts["speed"] = f"{seconds:.3g} s/step"
    if seconds_left is not None:
        parts["left"] = f"eta {clock(seconds_left)}"
    return parts


def step_line(event: Event, max_steps: float | None, seconds_left: float | None) -> str:
    """One step on one line, all that is known of it."""
    return GAP.join([step_head(event, max_steps), *step_parts(event, seconds_left).values()])


def phase_line(event: Event) -> str:
    """A phase of the start, with the seconds that it took when it is over."""
    seconds = number(event, "seconds")
    return f"{event.get('name')}" + (f"{GAP}{seconds:.1f} s" if seconds is not None else "")


def evaluation_line(event: Event) -> str:
    """The figures of an evaluation, with its step."""
    step = number(event, "step")
    where = f" at step {step:.0f}" if step is not None else ""
    return f"evaluation{of_set(event)}{where}{GAP}{evaluation_text(event)}"


def guard_line(event: Event) -> str:
    """What a guard said; one that stops the run says it in the message of its end too."""
    kind = {"note": "note", "warn": "warning"}.get(str(event.get("action")), "stopped by")
    step, because, fix = number(event, "step"), event.get("because"), event.get("fix")
    where = f" at step {step:.0f}" if step is not None else ""
    said = "; ".join([str(event.get("message")), *map(str, because if isinstance(because, list | tuple) else [])])
    way = f"; fix: {fix}" if fix else ""
    return f"{kind}: {event.get('name')}{where}: {said}{way} [{event.get('id')}]"


def server_line(event: Event) -> str:
    """What happened to the vLLM server of the run."""
    state, seconds, url = event.get("state"), number(event, "seconds"), event.get("url")
    if state == "died":
        again = f"{event.get('restart')} of {event.get('of')}"
        return f"the vLLM server {event.get('how')}; server and trainer are started again, {again}"
    at = f" at {url}" if url else ""
    after = f" after {clock(seconds)}" if seconds is not None else ""
    return f"the vLLM server is {state}{at}{after}"


def at_best_lines(event: Event) -> list[str]:
    """The warning that there is nothing to gain, where an evaluation before the first step says so.

    decides: false for a set of held-out rows beside that which decides; its best says nothing of the training.
    """
    if event.get("event") != "evaluation" or event.get("decides") is False:
        return []
    if number(event, "step") != 0 or not is_at_best(event):
        return []
    told = f"warning: already at its best before training{of_set(event, ', ')}: {right_text(event)} are right"
    return [f"{told}; training can show no gain on them. Ctrl-C, and harder rows, save it [VRD004]"]


_LINES = {"evaluation": evaluation_line, "guard": guard_line, "server": server_line, "phase": phase_line}


def event_lines(event: Mapping[str, object]) -> list[str]:
    """What stays to be read of an event; a step, which comes and goes, has nothing.

    resumed: from which checkpoint the run goes on, and which were skipped. lines: said as they are.
    """
    words = _LINES.get(str(event.get("event")))
    said = [lines for key in ("resumed", "lines") if isinstance(lines := event.get(key), list)]
    lines = [] if words is None else [words(event), *at_best_lines(event)]
    return [*lines, *(str(line) for lines in said for line in lines)]
