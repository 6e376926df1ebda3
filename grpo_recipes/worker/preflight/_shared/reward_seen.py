"""What calling a reward function showed."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grpo_recipes.contract.findings.finding import Finding, Patch, Path, Severity, dotted

GOLD = "gold"
GOLD_IN_TAGS = "gold in tags"
EMPTY = "empty"
WORDS = "words"
NOISE = "noise"
OTHER = "another row's gold"
GOLDS = (GOLD, GOLD_IN_TAGS)
GARBAGE = (EMPTY, WORDS, NOISE, OTHER)


@dataclass(frozen=True, slots=True)
class Call:
    """One call and what came of it.

    name: "load", "one row", "all", "again", or a case. entries: of each completion the place of its row in the sample,
    and what kind of completion it is. shape: "own" or "other", messages against text. kind: "values",
    "wrong" (no list of numbers), "raised", "killed" (the process ended or was ended within). values: by entry; None
    is no reward, as NaN is for TRL. error: the exception, or what was returned instead. place: the user's line.
    missing: parameters that were not given. by: for "killed", "time", "memory" or the exit code in words.
    """

    name: str
    shape: str
    kind: str
    entries: Sequence[tuple[int, str]] = ()
    values: Sequence[float | None] = ()
    seconds: float = 0.0
    error: str = ""
    place: str = ""
    missing: Sequence[str] = ()
    unexpected: str = ""
    by: str = ""


@dataclass(frozen=True, slots=True)
class RewardSeen:
    """One reward of the plan. index: in the recipe's list. parameters: names that its signature has, without options.

    calls: in their order; the first that is not of kind "values" says what is wrong. empty for a reward model, which
    is not called, and for a judge, which is asked once.
    """

    index: int
    name: str
    kind: str
    weight: float
    calls: tuple[Call, ...] = ()
    parameters: tuple[str, ...] = ()

    def call(self, name: str, shape: str = "own") -> Call | None:
        """A call by its name, None where it was not made."""
        return next((call for call in self.calls if call.name == name and call.shape == shape), None)

    @property
    def failed(self) -> Call | None:
        """The first call in its own shape that gave no values."""
        return next((call for call in self.calls if call.shape == "own" and call.kind != "values"), None)

    @property
    def judged(self) -> Call | None:
        """The call over the whole sample, when it gave values."""
        call = self.call("all")
        return call if call is not None and call.kind == "values" else None

    @property
    def key(self) -> tuple[str | int, ...]:
        """The path of the reward in the recipe."""
        return ("rewards", self.index)


@dataclass(frozen=True, slots=True)
class JudgeSeen:
    """What a judge said of one completion, of the first row of the sample.

    index: in the recipe's list. at: the judge's model and address. question: what it was asked. problem: why it could
    not be asked; else its answer, and its score or why there is none.
    """

    index: int
    name: str
    at: str = ""
    question: str = ""
    answer: str = ""
    score: float | None = None
    why: str = ""
    problem: Finding | None = None


def by_case(call: Call) -> dict[str, list[float | None]]:
    """The values of a call by the kind of completion."""
    found: dict[str, list[float | None]] = {}
    for (_, case), value in zip(call.entries, call.values, strict=True):
        found.setdefault(case, []).append(value)
    return found


def mean(values: list[float | None]) -> float | None:
    """The mean of those that are numbers, infinite ones too; None where none is."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def record(value: Any) -> str:
    """A mean in a message."""
    return "none" if value is None else f"{value:.3g}"


# A fault: what a check of the preflight found, at a key of the recipe whose place only the caller knows.


def fault(
    severity: Severity,
    message: str,
    path: Path,
    because: tuple[str, ...] = (),
    fix: str | None = None,
    patch: tuple[Patch, ...] = (),
    *,
    rule: str = "",
) -> Finding:
    """The finding of a check. path: of its key in the recipe. rule: the check's id, which the catalog knows.

    A path may begin with a section as rows have it, such as "evaluation.sets.easy".
    """
    path = (*(part for first in path[:1] for part in str(first).split(".")), *path[1:])
    return Finding(rule, severity, message, dotted(path), because=because, fix=fix, patch=patch, path=path)


def cut(text: str, most: int = 100) -> str:
    """The text on one line, at most so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 3]}..."
