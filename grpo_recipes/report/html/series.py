"""The figures of a run's steps in so few points that a chart can have them, whatever the run's length."""

import itertools
import json
import os
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from grpo_recipes.contract.secrets.redact import redact, redact_value

MOST_POINTS = 400
AVERAGED_STEPS = 10
MOST_NAMES, LONGEST_NAME = 500, 200
NO_FIGURES = ("event", "step", "time")


@dataclass(slots=True)
class Figure:
    """All values of one name. first, last: up to ten at either end; missing: steps at which it was no number."""

    count: int = 0
    total: float = 0.0
    least: float = 0.0
    most: float = 0.0
    first: list[float] = field(default_factory=list)
    last: deque[float] = field(default_factory=lambda: deque(maxlen=AVERAGED_STEPS))
    missing: int = 0
    first_missing: int | None = None

    def add(self, value: float) -> None:
        """Takes the next value."""
        self.least = value if self.count == 0 else min(self.least, value)
        self.most = value if self.count == 0 else max(self.most, value)
        self.count, self.total = self.count + 1, self.total + value
        if len(self.first) < AVERAGED_STEPS:
            self.first.append(value)
        self.last.append(value)

    def ends(self) -> tuple[float, float, int]:
        """The means of the first and the last values, and of how many: a quarter of them, ten at most."""
        steps = max(1, min(AVERAGED_STEPS, self.count // 4))
        last = list(itertools.islice(self.last, len(self.last) - min(steps, len(self.last)), None))
        return sum(self.first[:steps]) / len(self.first[:steps]), sum(last) / len(last), steps


@dataclass(slots=True)
class _Point:
    """Some steps in a row. sums: of each name the sum, the count, the least and the most."""

    last_step: int
    sums: dict[str, tuple[float, int, float, float]] = field(default_factory=dict)

    def add(self, name: str, total: float, count: int, least: float, most: float) -> None:
        old = self.sums.get(name)
        if old is not None:
            total, count = total + old[0], count + old[1]
            least, most = min(least, old[2]), max(most, old[3])
        self.sums[name] = (total, count, least, most)


class StepSeries:
    """Takes the steps of a run one after the other and keeps at most MOST_POINTS points, each the mean of `width`."""

    def __init__(self) -> None:
        self.width = 1
        self.figures: dict[str, Figure] = {}
        self.steps = 0
        self._points: dict[int, _Point] = {}

    def add(self, step: int, values: Mapping[str, object]) -> None:
        """Takes one step. A name whose value is null was measured and is no number; other values are left out."""
        self.steps += 1
        point = self._points.setdefault(step // self.width, _Point(step))
        point.last_step = max(step, point.last_step)
        for name, value in values.items():
            if name in NO_FIGURES or isinstance(value, bool) or self._is_too_much(name):
                continue
            if isinstance(value, int | float) and abs(value) < float("inf"):
                self.figures.setdefault(name, Figure()).add(value)
                point.add(name, value, 1, value, value)
            elif value is None:
                figure = self.figures.setdefault(name, Figure())
                figure.missing += 1
                figure.first_missing = step if figure.first_missing is None else figure.first_missing
        if len(self._points) > MOST_POINTS:
            self._halve()

    def _is_too_much(self, name: str) -> bool:
        return name not in self.figures and (len(self.figures) >= MOST_NAMES or len(name) > LONGEST_NAME)

    def _halve(self) -> None:
        self.width *= 2
        points, self._points = self._points, {}
        for place in sorted(points):
            point = points[place]
            into = self._points.setdefault(place // 2, _Point(point.last_step))
            into.last_step = max(into.last_step, point.last_step)
            for name, (total, count, least, most) in point.sums.items():
                into.add(name, total, count, least, most)

    def x(self) -> list[int]:
        """The last step of each point."""
        return [self._points[place].last_step for place in sorted(self._points)]

    def mean(self, name: str) -> list[float | None]:
        """A value for each point, None where none of its steps has one."""
        return [None if sums is None else sums[0] / sums[1] for sums in self._sums(name)]

    def least(self, name: str) -> list[float | None]:
        """As mean."""
        return [None if sums is None else sums[2] for sums in self._sums(name)]

    def most(self, name: str) -> list[float | None]:
        """As mean."""
        return [None if sums is None else sums[3] for sums in self._sums(name)]

    def _sums(self, name: str) -> list[tuple[float, int, float, float] | None]:
        return [self._points[place].sums.get(name) for place in sorted(self._points)]

    def has(self, name: str) -> bool:
        """Whether any step has a number of this name."""
        return name in self.figures and self.figures[name].count > 0


# Texts and numbers of a run, as a page shows them.


GIB = 2**30
LONGEST = 600
NO_FOLDER = "\0"
"""For a text that may have the path of the run folder in it as any other text."""
_ABSOLUTE = re.compile(r"(?<![\w/:.~{}$)>-])/(?:[\w.@+~,=-]+/)+[\w.@+~,=-]+")
_KEPT_PARTS = 2


def shown_text(text: object, folder: str, most: int = LONGEST) -> str:
    """A text of a run: without secrets and steering characters, with no path that says where on a machine it lies.

    folder: the run folder, absolute; what lies in it is named from there. most: characters, more are cut.
    """
    plain = redact(text if isinstance(text, str) else json.dumps(text, ensure_ascii=False, default=str))
    plain = plain[: 4 * most].replace(f"{folder}{os.sep}", "").replace(folder, os.path.basename(folder))
    plain = _ABSOLUTE.sub(_relative, plain)
    return plain if len(plain) <= most else f"{plain[: most - 3]}..."


def _relative(found: "re.Match[str]") -> str:
    parts = found[0].split("/")
    return "…/" + "/".join(parts[-_KEPT_PARTS:])


def shown_value(key: str, value: object, folder: str) -> str:
    """A planned value beside its key, as YAML would have it on one line."""
    redacted = redact_value({key: value})
    own = next(iter(redacted.values())) if isinstance(redacted, Mapping) else None
    return shown_text(own, folder)


def figure(value: float | None, digits: int = 4) -> str:
    """So many digits, more before the point; "-" for nothing."""
    if value is None:
        return "-"
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 10_000 else f"{value:.{digits}g}"


def percent(value: float | None) -> str:
    """A share: 12 %, and 0.4 % below one."""
    if value is None:
        return "-"
    return f"{value * 100:.1f} %" if 0 < abs(value) < 0.0995 or 0.9905 < abs(value) < 1 else f"{value * 100:.0f} %"


def gib(size: object) -> str:
    """Bytes as GiB; "-" for what is none."""
    if isinstance(size, bool) or not isinstance(size, int | float):
        return "-"
    return f"{size / GIB:.2f} GiB" if size >= GIB / 100 else f"{size / 2**20:.1f} MiB"


def joined(parts: Sequence[str]) -> str:
    """Parts that are not empty, in one line."""
    return " · ".join(part for part in parts if part)
