"""How long a run takes and what that costs, as text and as JSON; all of it estimated."""

from grpo_recipes.duration.between import Between
from grpo_recipes.duration.levers import Lever
from grpo_recipes.duration.planned import Duration

_WIDTH = 14


def duration_lines(duration: Duration, price: float | None) -> list[str]:
    """Tokens and operations of a step, its seconds, the whole run and the largest lever.

    price: of a GPU for an hour; None tells no cost.
    """
    tokens, seconds, unknown = duration.tokens, duration.seconds, duration.unknown
    step = f"{tokens.generated:,.0f} tokens generated, {tokens.trained:,} trained, at most"
    if duration.flops is not None:
        step += f"; {duration.flops.total():.3g} floating-point operations"
    rows = {"a step": step}
    if seconds is None:
        rows["seconds"] = f"unknown: {unknown}"
    else:
        share = seconds.generation_share()
        rows["seconds"] = (
            f"{_ends(seconds.total())}, {share.least:.0%} to {share.most:.0%} of it generation (estimated)"
        )
    rows["the run"] = _run(duration, price)
    if duration.lever is not None:
        rows["largest lever"] = _lever(duration.lever)
    return [f"  {name:<{_WIDTH}} {text}" for name, text in rows.items()]


def duration_value(duration: Duration, price: float | None) -> dict[str, object]:
    """The duration for programs. Ranges are [least, most]; null is unknown."""
    flops, seconds, lever = duration.flops, duration.seconds, duration.lever
    cost = None if price is None else duration.cost(price)
    return {
        "generated_tokens": duration.tokens.generated,
        "trained_tokens": duration.tokens.trained,
        "flops": None if flops is None else flops._asdict(),
        "seconds": None if seconds is None else {name: list(ends) for name, ends in seconds._asdict().items()},
        "seconds_of_a_step": None if seconds is None else list(seconds.total()),
        "generation_share": None if seconds is None else list(seconds.generation_share()),
        "steps": duration.steps,
        "gpus": duration.gpus,
        "hours": _list(duration.hours()),
        "cost": _list(cost),
        "lever": None if lever is None else lever._asdict(),
        "because": duration.unknown or None,
    }


def _run(duration: Duration, price: float | None) -> str:
    """Steps, hours and cost, as far as they are known."""
    if duration.steps is None:
        return "unknown: the rows that epochs are counted in are not known before they are loaded"
    text, hours = f"{duration.steps} steps", duration.hours()
    if hours is not None:
        text += f", {_ends(hours)} hours"
    if price is not None and (cost := duration.cost(price)) is not None:
        text += f", {_ends(cost)} at {price:g} an hour for each of {duration.gpus} GPU{'s' * (duration.gpus != 1)}"
    return text


def _lever(lever: Lever) -> str:
    kept = "the experiment stays the same" if lever.keeps else "another experiment"
    return f"{lever.setting}: about {lever.saves:.0%} of a step; {kept}"


def _ends(ends: Between) -> str:
    return f"{_number(ends.least)} to {_number(ends.most)}"


def _number(value: float) -> str:
    """Two digits, or all before the point."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.2g}"


def _list(ends: Between | None) -> list[float] | None:
    return None if ends is None else list(ends)
