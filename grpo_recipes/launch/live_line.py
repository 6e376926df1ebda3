"""The line that moves on a terminal, laid out for its width: step, time left and speed stay, the rest goes first."""

from collections.abc import Mapping
from dataclasses import dataclass

from grpo_recipes.contract.metrics import number

_WIDEST_BAR, _NARROWEST_BAR = 20, 6
_GAP = 2
# The parts in the order in which they stand, each with its place among those that are kept.
_IMPORTANCE = {"reward": 2, "groups": 4, "truncated": 3, "speed": 1, "left": 0}


@dataclass(frozen=True, slots=True)
class LiveLine:
    """What stands beside the step. bar: its columns, 0 for none. has_clock: there is room for the time so far."""

    text: str
    bar: int
    has_clock: bool


def clock(seconds: float) -> str:
    """Seconds as 0:02:05; days are counted as hours."""
    whole = round(max(seconds, 0))
    return f"{whole // 3600}:{whole // 60 % 60:02}:{whole % 60:02}"


def step_text(event: Mapping[str, object], seconds_left: float | None) -> str:
    """One step in words, all that is known of it."""
    return _joined(step_parts(event, seconds_left))


def step_parts(event: Mapping[str, object], seconds_left: float | None) -> dict[str, str]:
    """One step in words, by what they say; what the event does not tell is left out."""
    parts = {}
    reward, seconds = number(event, "reward"), number(event, "step_time")
    without, truncated = number(event, "frac_reward_zero_std"), number(event, "completions/clipped_ratio")
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


def live_line(head: str, parts: Mapping[str, str], width: int, so_far: str) -> LiveLine:
    """The line for a terminal of so many columns. head: the step, always there; so_far: the time since the start."""
    room = width - len(head) - 1
    kept = dict(parts)
    while kept and len(_joined(kept)) > room:
        del kept[max(kept, key=lambda name: _IMPORTANCE[name])]
    room -= len(_joined(kept)) + 1
    bar = min(_WIDEST_BAR, room)
    bar = bar if bar >= _NARROWEST_BAR else 0
    return LiveLine(_joined(kept), bar, room - bar - 1 >= len(so_far) and len(kept) == len(parts))


def _joined(parts: Mapping[str, str]) -> str:
    return (" " * _GAP).join(parts.values())
