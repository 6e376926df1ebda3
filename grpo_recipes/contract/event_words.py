"""The text of a run's events, the same in train.log, on a screen and in `grpo-run watch`."""

from collections.abc import Mapping

from grpo_recipes.contract.metric_names import CLIPPED_RATIO
from grpo_recipes.contract.metrics import (
    Event,
    evaluation_text,
    is_at_best,
    number,
    of_set,
    reward_as_drawn,
    right_text,
    without_variance,
)

GAP = "  "


def clock(seconds: float) -> str:
    """Formats seconds as 0:02:05; days are counted as hours."""
    whole = round(max(seconds, 0))
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def step_head(event: Event, max_steps: float | None) -> str:
    """The step of an event, as "step 3/40"; "" if it has none."""
    step = number(event, "step")
    of = f"/{max_steps:.0f}" if max_steps is not None else ""
    return "" if step is None else f"step {step:.0f}{of}"


def step_parts(event: Event, seconds_left: float | None) -> dict[str, str]:
    """The texts for one step, by what they report; figures that the event lacks are left out."""
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
    """One step on one line, with every figure that is known."""
    return GAP.join([step_head(event, max_steps), *step_parts(event, seconds_left).values()])


def phase_line(event: Event) -> str:
    """A phase of the start, with its duration once it is over."""
    seconds = number(event, "seconds")
    return f"{event.get('name')}" + (f"{GAP}{seconds:.1f} s" if seconds is not None else "")


def evaluation_line(event: Event) -> str:
    """The figures of an evaluation, with its step."""
    step = number(event, "step")
    where = f" at step {step:.0f}" if step is not None else ""
    where = " after the warm start" if "warm_step" in event else where
    return f"evaluation{of_set(event)}{where}{GAP}{evaluation_text(event)}"


def guard_line(event: Event) -> str:
    """The warning of a guard; if it stops the run, the message of the run's end repeats it."""
    kind = {"note": "note", "warn": "warning"}.get(str(event.get("action")), "stopped by")
    step, because, fix = number(event, "step"), event.get("because"), event.get("fix")
    where = f" at step {step:.0f}" if step is not None else ""
    text = "; ".join([str(event.get("message")), *map(str, because if isinstance(because, list | tuple) else [])])
    way = f"; fix: {fix}" if fix else ""
    return f"{kind}: {event.get('name')}{where}: {text}{way} [{event.get('id')}]"


def server_line(event: Event) -> str:
    """The line for an event of the run's vLLM server."""
    state, seconds, url = event.get("state"), number(event, "seconds"), event.get("url")
    if state == "died":
        again = f"{event.get('restart')} of {event.get('of')}"
        return f"the vLLM server {event.get('how')}; restarting server and trainer, {again}"
    at = f" at {url}" if url else ""
    after = f" after {clock(seconds)}" if seconds is not None else ""
    return f"the vLLM server is {state}{at}{after}"


def warm_start_line(event: Event) -> str:
    """A step of the warm start: its first one, each tenth part, and its last one; "" for the others."""
    step, steps, loss = (number(event, key) for key in ("warm_step", "of", "loss"))
    if step is None or steps is None or (step > 1 and step % max(1, steps // 10) and step < steps):
        return ""
    return f"warm start {step:.0f}/{steps:.0f}" + ("" if loss is None else f"{GAP}loss {loss:.4f}")


def at_best_lines(event: Event) -> list[str]:
    """The warning that an evaluation before the first step leaves nothing to gain, if it does.

    decides: false for a set of held-out rows other than the deciding one; its best says nothing about the training.
    """
    if event.get("event") != "evaluation" or event.get("decides") is False:
        return []
    if number(event, "step") != 0 or not is_at_best(event):
        return []
    when, training = ("after the warm start", "GRPO") if "warm_step" in event else ("before training", "training")
    warning = f"warning: already at its best {when}{of_set(event, ', ')}: {right_text(event)} are right"
    return [f"{warning}; {training} can show no gain on them. Stop with Ctrl-C and use harder rows [VRD004]"]


_LINES = {
    "evaluation": evaluation_line,
    "guard": guard_line,
    "server": server_line,
    "phase": phase_line,
    "warm_start": warm_start_line,
}


def event_lines(event: Mapping[str, object]) -> list[str]:
    """The lines of an event that stay visible; none for a step, which is only shown while it lasts.

    resumed: the checkpoint that the run resumes from, and those that were skipped. lines: printed as they are.
    """
    words = _LINES.get(str(event.get("event")))
    lists = [lines for key in ("resumed", "lines") if isinstance(lines := event.get(key), list)]
    lines = [] if words is None else [words(event), *at_best_lines(event)]
    return [*filter(None, lines), *(str(line) for lines in lists for line in lines)]
