"""Which of a run's completions a report shows: of each stretch of its steps the best, the worst, and one as it came."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from grpo_recipes.contract.metrics import number

MOST_STRETCHES = 16
LONGEST_TEXT = 3000
"""Characters that are shown of a prompt or a completion."""


class ShownCompletion(NamedTuple):
    """One completion. total: the weighted reward, None where it is not known; kind: best, worst or drawn."""

    step: int
    kind: str
    prompt: str
    completion: str
    rewards: Mapping[str, float | None]
    total: float | None
    advantage: float | None
    tokens: int | None
    ended: str


@dataclass(slots=True)
class _Stretch:
    """best, worst: by reward, with the row; drawn: the first row that came."""

    drawn: ShownCompletion | None = None
    best: ShownCompletion | None = None
    worst: ShownCompletion | None = None


@dataclass(slots=True)
class Samples:
    """Takes the lines of completions.jsonl and keeps few of them. rows: how many there were; stretches: by place."""

    rows: int = 0
    width: int = 1
    _stretches: dict[int, _Stretch] = field(default_factory=dict)

    def add(self, event: Mapping[str, object]) -> None:
        """Takes one line; what is not as the worker writes it is left out."""
        step, rows = number(event, "step"), event.get("rows")
        if event.get("event") != "completions" or step is None or step < 0 or not isinstance(rows, list):
            return
        for row in rows:
            if isinstance(row, Mapping):
                self.rows += 1
                self._take(int(step) // self.width, _sample(int(step), row))
        while len(self._stretches) > MOST_STRETCHES:
            self._halve()

    def _take(self, place: int, *samples: ShownCompletion | None) -> None:
        stretch = self._stretches.setdefault(place, _Stretch())
        for sample in samples:
            if sample is None:
                continue
            stretch.drawn = stretch.drawn or sample
            if sample.total is None:
                continue
            if stretch.best is None or stretch.best.total is None or sample.total > stretch.best.total:
                stretch.best = sample
            if stretch.worst is None or stretch.worst.total is None or sample.total < stretch.worst.total:
                stretch.worst = sample

    def _halve(self) -> None:
        self.width *= 2
        stretches, self._stretches = self._stretches, {}
        for place in sorted(stretches):
            one = stretches[place]
            self._take(place // 2, one.drawn, one.best, one.worst)

    def shown(self) -> list[ShownCompletion]:
        """Best, worst and drawn of each stretch, in the order of the steps; none twice."""
        found: list[ShownCompletion] = []
        for place in sorted(self._stretches):
            stretch = self._stretches[place]
            best, worst = stretch.best, stretch.worst
            differ = best is not None and worst is not None and best.total != worst.total
            named = ((best, "best"), (worst, "worst")) if differ else ()
            kept = {id(one): one._replace(kind=kind) for one, kind in named if one is not None}
            if stretch.drawn is not None:
                kept.setdefault(id(stretch.drawn), stretch.drawn)
            found += sorted(kept.values(), key=lambda one: one.step)
        return found


def _sample(step: int, row: Mapping[str, object]) -> ShownCompletion:
    rewards, tokens = row.get("rewards"), number(row, "tokens")
    given = rewards if isinstance(rewards, Mapping) else {}
    return ShownCompletion(
        step=step,
        kind="drawn",
        prompt=_text(row.get("prompt")),
        completion=_text(row.get("completion")),
        rewards={str(name)[:80]: number(given, name) for name in list(given)[:40]},
        total=number(row, "reward"),
        advantage=number(row, "advantage"),
        tokens=None if tokens is None else int(tokens),
        ended=_text(row.get("ended"))[:20],
    )


def _text(value: object) -> str:
    """A text, its middle left out where it is longer than is shown."""
    text = value if isinstance(value, str) else ""
    if len(text) <= LONGEST_TEXT:
        return text
    half = LONGEST_TEXT // 2
    return f"{text[:half]}\n[{len(text) - 2 * half} characters left out]\n{text[-half:]}"
