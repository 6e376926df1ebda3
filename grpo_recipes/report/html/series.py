"""Reduces the figures of a run's steps to few enough points for a chart, however long the run."""

import json
import os
import re
from array import array
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from statistics import fmean

from grpo_recipes.contract.secrets.redact import redact, redact_value

MOST_POINTS = 400
AVERAGED_STEPS = 10
MOST_NAMES, LONGEST_NAME = 500, 200
NO_FIGURES = ("event", "step", "time")


@dataclass(slots=True)
class Figure:
    """All values of one name, with their steps."""

    steps: "array[int]" = field(default_factory=lambda: array("q"))
    values: "array[float]" = field(default_factory=lambda: array("d"))

    def ends(self) -> tuple[float, float, int]:
        """The means of the first and last values, and their number: a quarter of all, at most ten."""
        count = max(1, min(AVERAGED_STEPS, len(self.values) // 4))
        return fmean(self.values[:count]), fmean(self.values[-count:]), count


def stretch_width(steps: Collection[int], most: int) -> int:
    """The number of steps per point for at most this many points, a power of 2."""
    width = 1
    while len({step // width for step in steps}) > most:
        width *= 2
    return width


class StepSeries:
    """The figures of a run's steps, drawn as at most MOST_POINTS points, each of `width` steps."""

    def __init__(self) -> None:
        self.figures: dict[str, Figure] = {}
        self._steps: set[int] = set()

    def add(self, step: int, values: Mapping[str, object]) -> None:
        """Adds one step; values that are not numbers are ignored."""
        self._steps.add(step)
        for name, value in values.items():
            if name in NO_FIGURES or isinstance(value, bool) or self._is_too_much(name):
                continue
            if isinstance(value, int | float) and abs(value) < 1e308:
                figure = self.figures.setdefault(name, Figure())
                figure.steps.append(step)
                figure.values.append(value)

    def _is_too_much(self, name: str) -> bool:
        return name not in self.figures and (len(self.figures) >= MOST_NAMES or len(name) > LONGEST_NAME)

    @cached_property
    def width(self) -> int:
        """The number of steps per point, after all were added."""
        return stretch_width(self._steps, MOST_POINTS)

    @cached_property
    def x(self) -> list[int]:
        """The last step of each point."""
        return list({step // self.width: step for step in sorted(self._steps)}.values())

    def points_of(self, name: str, of_steps: Callable[[list[float]], float] = fmean) -> list[float | None]:
        """A value for each point, computed from its steps; None if none of them has one."""
        by_point: dict[int, list[float]] = defaultdict(list)
        for step, value in zip(self.figures[name].steps, self.figures[name].values, strict=True):
            by_point[step // self.width].append(value)
        return [of_steps(values) if (values := by_point.get(step // self.width)) else None for step in self.x]

    def has(self, name: str) -> bool:
        """Whether any step has a number of this name."""
        return name in self.figures and len(self.figures[name].values) > 0


GIB = 2**30
LONGEST = 600
NO_FOLDER = "\0"
"""For a text in which the run folder's path is nothing special."""
_ABSOLUTE = re.compile(r"(?<![\w/:.~{}$)>-])/(?:[\w.@+~,=-]+/)+[\w.@+~,=-]+")
_KEPT_PARTS = 2


def public_text(text: object, folder: str, most: int = LONGEST) -> str:
    """A text of a run without secrets, terminal escapes, and paths that reveal folders of the machine.

    folder: the run folder, absolute; paths in it are shown relative to it. most: characters to keep.
    """
    plain = redact(text if isinstance(text, str) else json.dumps(text, ensure_ascii=False, default=str))
    plain = plain[: 4 * most].replace(f"{folder}{os.sep}", "").replace(folder, os.path.basename(folder))
    plain = _ABSOLUTE.sub(_relative, plain)
    return plain if len(plain) <= most else f"{plain[: most - 3]}..."


def _relative(match: "re.Match[str]") -> str:
    parts = match[0].split("/")
    return "…/" + "/".join(parts[-_KEPT_PARTS:])


def public_value(key: str, value: object, folder: str) -> str:
    """A planned value for its key, as YAML on one line."""
    redacted = redact_value({key: value})
    own = next(iter(redacted.values())) if isinstance(redacted, Mapping) else None
    return public_text(own, folder)


def figure(value: float | None, digits: int = 4) -> str:
    """A number with this many digits, more before the point; "-" for None."""
    if value is None:
        return "-"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.{digits}g}"


def percent(value: float | None) -> str:
    """A share as a percentage: 12 %, and 0.4 % below one."""
    if value is None:
        return "-"
    return f"{value * 100:.1f} %" if 0 < abs(value) < 0.0995 or 0.9905 < abs(value) < 1 else f"{value * 100:.0f} %"


def gib(size: object) -> str:
    """Bytes as GiB; "-" if it is not a number."""
    if isinstance(size, bool) or not isinstance(size, int | float):
        return "-"
    return f"{size / GIB:.2f} GiB" if size >= GIB / 100 else f"{size / 2**20:.1f} MiB"


def join_parts(parts: Sequence[str]) -> str:
    """The parts that are not empty, on one line."""
    return " · ".join(part for part in parts if part)
