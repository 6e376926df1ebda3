"""The results of calling reward functions."""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

from grpo_recipes.contract.findings.finding import Finding

GOLD = "gold"
GOLD_IN_TAGS = "gold in tags"
GOLD_SHORT = "gold's answer"
GOLD_BOXED = "gold in \\boxed{}"
PREFILLED = "prefill and gold"
EMPTY = "empty"
WORDS = "words"
NOISE = "noise"
OTHER = "another row's gold"
GOLD_AS_ASKED = "gold in the asked form"
EVERY_GOLD = "all right answers"
RESPELLED = "gold, spelled otherwise"
GOLDS = (GOLD, GOLD_IN_TAGS, GOLD_SHORT, GOLD_BOXED, GOLD_AS_ASKED)
TRAINED = "trained gold"
"""The gold answers of a warm start; empty for a row that it leaves out."""
BOXED = ("accuracy", "cosine_scaled")
"""The shipped rewards that read an answer in \\boxed{}."""
CAUGHT = "one row, traced"
"""The call of a reward that gives all completions the same."""
GARBAGE = (EMPTY, WORDS, NOISE, OTHER)
RETYPED = "retyped"
"""The shape of a call whose columns have numbers as texts, and texts of numbers as numbers."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a reward and its result.

    name: "load", "one row", "one row again", "all", "again", CAUGHT, or a case. entries: for each completion, its row's
    index in the sample and its kind. shape: "own", RETYPED, or "other", messages instead of text or vice versa. kind:
    "values", "wrong" (not a list of numbers), "raised", "killed" (the process ended during it). values: by entry; None
    means no reward, like NaN.
    error: the exception, or what was returned instead. place: the user's line. missing: parameters that were not given.
    by: for "killed", "time", "memory" or the exit code in words. caught: of the call CAUGHT, the exceptions that the
    reward caught, with their place and number.
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
    caught: Sequence[tuple[str, str, int]] = ()


@dataclass(frozen=True, slots=True)
class RewardSeen:
    """One reward of the plan. index: in the recipe's list. parameters: of its signature, without options.

    calls: in order; the first that is not of kind "values" is the error. Empty for a reward model, which is not called,
    and for a judge, which is asked once.
    """

    index: int
    name: str
    kind: str
    weight: float
    calls: tuple[Call, ...] = ()
    parameters: tuple[str, ...] = ()

    def call(self, name: str, shape: str = "own") -> Call | None:
        """Returns a call by name, None if it was not made."""
        return next((call for call in self.calls if call.name == name and call.shape == shape), None)

    @property
    def failed(self) -> Call | None:
        """Returns the first call in its own shape that returned no values."""
        return next((call for call in self.calls if call.shape == "own" and call.kind != "values"), None)

    @property
    def judged(self) -> Call | None:
        """Returns the call over the whole sample, if it returned values."""
        call = self.call("all")
        return call if call is not None and call.kind == "values" else None

    @property
    def retyped(self) -> Call | None:
        """Returns the call with columns of other types, if it was made and returned values."""
        call = self.call("all", RETYPED)
        return call if call is not None and call.kind == "values" else None

    @property
    def key(self) -> tuple[str | int, ...]:
        """Returns the reward's path in the recipe."""
        return ("rewards", self.index)


@dataclass(frozen=True, slots=True)
class JudgeSeen:
    """A judge's answer about one completion of the sample's first row.

    index: in the recipe's list. at: the judge's model and address. question: the text sent to it. problem: why it could
    not be asked; else its answer, and its score or the reason for a missing score.
    """

    index: int
    name: str
    at: str = ""
    question: str = ""
    answer: str = ""
    score: float | None = None
    why: str = ""
    problem: Finding | None = None


def form_of_right(cases: Container[str]) -> str:
    """Returns the kind of right answers that follows tool calls: in the asked form and without a derivation."""
    return next((case for case in (GOLD_AS_ASKED, GOLD_BOXED, GOLD_SHORT, GOLD_IN_TAGS) if case in cases), GOLD)


def by_case(call: Call) -> dict[str, list[float | None]]:
    """Returns a call's values by kind of completion."""
    values: dict[str, list[float | None]] = {}
    for (_, case), value in zip(call.entries, call.values, strict=True):
        values.setdefault(case, []).append(value)
    return values


def by_row(call: Call) -> dict[int, dict[str, float | None]]:
    """Returns a call's values by row, and then by kind of completion."""
    rows: dict[int, dict[str, float | None]] = {}
    for (row, case), value in zip(call.entries, call.values, strict=True):
        rows.setdefault(row, {})[case] = value
    return rows


def best_of_golds(values: dict[str, float | None]) -> float:
    """Returns the highest value of a row's right answers, 0 without any."""
    return max((value for case in GOLDS if (value := values.get(case)) is not None), default=0.0)


def pays_golds(call: Call | None) -> bool:
    """Whether the right answers of one kind get more than each kind of other completions, on average."""
    means = {} if call is None else {case: mean(values) or 0.0 for case, values in by_case(call).items()}
    golds, others = ([means[case] for case in cases if case in means] for cases in (GOLDS, GARBAGE))
    return bool(golds) and max(golds) > max(others, default=0.0)


def mean(values: list[float | None]) -> float | None:
    """Returns the mean of the numbers, including infinite ones; None without any."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def record(value: Any) -> str:
    """Returns a mean as text for a message."""
    return "none" if value is None else f"{value:.3g}"


def cut(text: str, most: int = 100) -> str:
    """Returns the text on one line, with at most `most` characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 3]}..."
