"""What the judged rows of an evaluation come to: means, pass@k, their intervals, and the change since another one."""

import math
import statistics
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy

from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.plan_sections import Passes

SHOWN_EXAMPLES = 3
# A figure by the mapping that it is in and its name there; the whole reward is in none.
Name = tuple[str, str]
REWARD: Name = ("", "reward")


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """One completion of a row. row: counted from 0; rewards: by name, None where a function gave none.

    sample: which of the row's completions, counted from 0.
    """

    row: int
    prompt: str
    completion: str
    rewards: dict[str, float | None]
    columns: dict[str, str]
    sample: int = 0


def summary(judged: list[JudgedRow], plan: Plan) -> dict[str, Any]:
    """Means over the rows: each reward (None if it never gave one), their weighted total, pass@k, the count of rows.

    without_score: completions to which a judge gave none, where there are any; these have no total. A row's value is
    the mean of its completions'. The total of a completion leaves out other rewards that gave none, as TRL
    does; one without any reward is not counted in it.
    """
    assert plan.evaluation is not None
    how, columns = plan.evaluation, _columns(judged, plan)
    rows = len({row.row for row in judged})
    more: dict[str, Any] = {"set": how.name} if how.name else {}
    more |= {} if how.samples == 1 else {"samples": how.samples}
    if how.passes is not None:
        more["passes"] = {"reward": how.passes.reward, "at_least": how.passes.at_least}
    if missing := without_score(judged, plan):
        more["without_score"] = missing
    means = {name: _mean(list(column)) for name, column in columns.items()}
    return {"count": rows, "greedy": how.greedy, **more, **_nested(means)}


def without_score(judged: list[JudgedRow], plan: Plan) -> int:
    """How many completions a judge gave no score to: nobody knows their reward, so it is not compared."""
    judges = _judges(plan)
    return sum(_lacks_score(row, judges) for row in judged)


def with_intervals(judged: list[JudgedRow], plan: Plan, seed: int) -> dict[str, Any]:
    """The interval of each figure of the summary, in its shape, with how it was made. seed: of the draws of rows."""
    how = {"level": LEVEL, "method": METHOD, "resamples": RESAMPLES, "seed": seed}
    return {**how, **_nested(intervals(_columns(judged, plan), seed))}


def change(before: list[JudgedRow], after: list[JudgedRow], plan: Plan, seed: int) -> dict[str, Any] | None:
    """What each figure has changed by, over the rows of both, with its interval; None where these are other rows.

    None, too, where a judge gave no score to a completion: what it would have said of it may be the whole change.
    The difference is taken row by row and rows are drawn with both of their values: how much the rows differ from
    each other does not make it uncertain, only how differently they changed.
    """
    if [(one.row, one.sample) for one in before] != [(one.row, one.sample) for one in after]:
        return None
    if without_score(before, plan) or without_score(after, plan):
        return None
    old, new = _columns(before, plan), _columns(after, plan)
    columns = {
        name: [None if a is None or b is None else b - a for a, b in zip(old[name], new[name], strict=True)]
        for name in new
    }
    means = {name: _mean(list(column)) for name, column in columns.items()}
    return {**_nested(means), "intervals": _nested(intervals(columns, seed))}


def turned(before: list[JudgedRow], after: list[JudgedRow], plan: Plan) -> dict[str, Any]:
    """How many rows are right before and after, and some that became so; {} where rows have several completions, and
    where a judge gave no score to one.

    A row is right where its completion passes; where nothing says what passes, by the first reward at 1.0.
    """
    assert plan.evaluation is not None
    if plan.evaluation.samples > 1 or not after or len(before) != len(after):
        return {}
    if without_score(before, plan) or without_score(after, plan):
        return {}
    passes = plan.evaluation.passes or Passes(next(iter(_weights(after, plan))), 1.0)
    pairs = [(old, new, _passed(old, passes), _passed(new, passes)) for old, new in zip(before, after, strict=True)]
    became = [(old, new) for old, new, was, is_now in pairs if is_now and not was]
    return {
        "counts": {
            "rows": len(pairs),
            "right_before": sum(was for *_, was, _ in pairs),
            "right_after": sum(is_now for *_, is_now in pairs),
            "became_right": len(became),
            "became_wrong": sum(was and not is_now for *_, was, is_now in pairs),
            "by": f"{passes.reward} of at least {passes.at_least:g}",
        },
        "examples": [
            {"prompt": new.prompt, "before": old.completion, "after": new.completion, "columns": new.columns}
            for old, new in became[:SHOWN_EXAMPLES]
        ],
    }


def rates(judged: list[JudgedRow], plan: Plan) -> list[dict[str, float | None]]:
    """For each row pass@1, and mean and deviation of its completions' rewards as TRL computes it of a group.

    None for what a row has no finite value of, and for pass@1 where the judge that says what passes gave no score to
    one of its completions, or a server gave an empty one, which nothing judged. The plan's evaluation asks for pass@1.
    """
    assert plan.evaluation is not None and plan.evaluation.passes is not None
    by = [name for name in _judges(plan) if name == plan.evaluation.passes.reward]
    empty = [one for one in judged if not one.completion and set(one.rewards.values()) == {None}]
    unknown = {one.row for one in (*empty, *(one for one in judged if _lacks_score(one, by)))}
    columns, weights, judges = _columns(judged, plan), _weights(judged, plan), _judges(plan)
    totals: dict[int, list[float]] = {one.row: [] for one in judged}
    for one in judged:
        if (total := _total(one, weights, judges)) is not None:
            totals[one.row].append(total)
    return [
        {
            "pass_rate": None if row in unknown else passed,
            "reward_mean": mean if mean is not None and math.isfinite(mean) else None,
            "reward_std": statistics.stdev(group) if len(group) > 1 and all(map(math.isfinite, group)) else None,
        }
        for passed, mean, (row, group) in zip(
            columns["pass_at", "1"], columns[REWARD], sorted(totals.items()), strict=True
        )
    ]


def _columns(judged: list[JudgedRow], plan: Plan) -> dict[Name, list[float | None]]:
    """The value of each row in each figure, in the order of the rows; None where a row has none."""
    assert plan.evaluation is not None
    how, weights, judges = plan.evaluation, _weights(judged, plan), _judges(plan)
    rows: dict[int, list[JudgedRow]] = {}
    for one in judged:
        rows.setdefault(one.row, []).append(one)
    groups = [rows[row] for row in sorted(rows)]
    columns = {REWARD: [_mean([_total(one, weights, judges) for one in group]) for group in groups]}
    for name in weights:
        columns["rewards", name] = [_mean([one.rewards[name] for one in group]) for group in groups]
    for k in how.pass_at:
        assert how.passes is not None
        by = [name for name in judges if name == how.passes.reward]
        known = [[one for one in group if not _lacks_score(one, by)] for group in groups]
        judged_rows = [any(one.rewards[how.passes.reward] is not None for one in group) for group in known]
        counts = [(len(group), sum(_passed(one, how.passes) for one in group)) for group in known]
        columns["pass_at", str(k)] = [
            pass_at(samples, passed, k) if is_judged and samples >= k else None
            for (samples, passed), is_judged in zip(counts, judged_rows, strict=True)
        ]
    return columns


def _weights(judged: list[JudgedRow], plan: Plan) -> dict[str, float]:
    """The weight of each reward that judges; that of an environment has 1, as TRL gives it."""
    judging = () if plan.evaluation is None else plan.evaluation.rewards
    planned = {one.name: one.weight for one in plan.rewards if not judging or one.name in judging}
    return planned | {name: 1.0 for one in judged[:1] for name in one.rewards if name not in planned}


def _judges(plan: Plan) -> list[str]:
    """The names of the rewards that are judges."""
    return [reward.name for reward in plan.rewards if reward.kind == "judge"]


def _lacks_score(row: JudgedRow, judges: Sequence[str]) -> bool:
    """Whether a judge was asked for a score of the completion and gave none."""
    return any(name in row.rewards and row.rewards[name] is None for name in judges)


def _total(row: JudgedRow, weights: Mapping[str, float], judges: Sequence[str]) -> float | None:
    """The weighted sum of a completion's rewards; without the score of a judge it has none."""
    if _lacks_score(row, judges):
        return None
    known = {name: value for name, value in row.rewards.items() if value is not None}
    return sum(weights[name] * value for name, value in known.items()) if known else None


def _passed(row: JudgedRow, passes: Passes) -> bool:
    value = row.rewards[passes.reward]
    return value is not None and value >= passes.at_least


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def _nested(values: Mapping[Name, Any]) -> dict[str, Any]:
    """{"reward": ..., "rewards": {...}, "pass_at": {...}}, the last one only where there is any."""
    found: dict[str, Any] = {}
    for (group, name), value in values.items():
        (found.setdefault(group, {}) if group else found)[name] = value
    return found


# How far the mean over held-out rows may be off: a bootstrap over the rows.
#
# The rows are drawn, with all their completions, as often as there are rows and with replacement, thousands of times;
# the interval is what the middle 95 % of the means of such draws span. It tells what other rows of the same kind would
# have measured, and nothing of rows of another kind or of another training.


LEVEL = 0.95
RESAMPLES = 2000
METHOD = "percentile bootstrap over rows"

Interval = tuple[float, float]
Column = TypeVar("Column", bound=Hashable)


def intervals(
    columns: Mapping[Column, Sequence[float | None]], seed: int, resamples: int = RESAMPLES
) -> dict[Column, Interval | None]:
    """The interval of the mean of each column over its rows; None for one that no two rows have a value in.

    columns: by name, one value for each row, None where a row has none; all equally long. Each draw takes the same
    rows in all columns. seed: of the draws, which are the same in every release of numpy and touch no other generator.
    """
    found: dict[Column, Interval | None] = dict.fromkeys(columns)
    generator = numpy.random.RandomState(seed % (1 << 32))  # its draws are the same in all releases
    table = {
        name: numpy.array([numpy.nan if value is None else value for value in column])
        for name, column in columns.items()
        if sum(value is not None for value in column) > 1
    }
    rows = max(map(len, columns.values()), default=0)
    means: dict[Column, list[float]] = {name: [] for name in table}
    for _ in range(resamples if rows else 0):
        drawn = generator.randint(0, rows, rows)
        for name, column in table.items():
            there = column[drawn]
            there = there[~numpy.isnan(there)]
            if len(there):
                means[name].append(there.sum() / len(there))
    for name, of_column in means.items():
        low, high = numpy.quantile(of_column, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        found[name] = float(low), float(high)
    return found


def pass_at(samples: int, passed: int, k: int) -> float:
    """The unbiased estimate from so many completions of a row, of which so many passed: 1 - C(n-c, k) / C(n, k).

    Counted in whole numbers and divided once, so it is the nearest float of any numbers. Raises ValueError unless
    0 <= passed <= samples and 1 <= k <= samples. Source: Chen et al. 2021, arXiv 2107.03374, equation 1.
    """
    if not (0 <= passed <= samples and 1 <= k <= samples):
        raise ValueError(f"pass@{k} of {passed} passed among {samples}")
    sets = math.comb(samples, k)
    return (sets - math.comb(samples - passed, k)) / sets
