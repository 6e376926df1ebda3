"""Computes the figures of an evaluation: means, pass@k, their intervals, and the change since an earlier one."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from grpo_recipes.contract.metrics import WITHOUT
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.plan_sections import Passes
from grpo_recipes.worker.completions.intervals import LEVEL, METHOD, RESAMPLES, intervals, pass_at

SHOWN_EXAMPLES = 3
# A figure: the mapping it is in ("" for the total reward), and its name there.
Name = tuple[str, str]
REWARD: Name = ("", "reward")
_KEY = attrgetter("row", "sample")
Columns = dict[Name, list[float | None]]
"""Each figure's value for each row, in row order; None where a row has none."""


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """One scored completion of a row. row: counted from 0; rewards: by name, None where a function returned none.

    sample: the completion's index in its row, counted from 0. prefill: the part of the answer that the prompt contains.
    """

    row: int
    prompt: str
    completion: str
    rewards: dict[str, float | None]
    columns: dict[str, str]
    sample: int = 0
    prefill: str = ""


def summary(judged: list[JudgedRow], plan: Plan) -> dict[str, Any]:
    """Returns means over the rows: each reward (None if never given), their weighted total, pass@k, the number of rows.

    without_score: completions that a judge gave no score, if any; these have no total. A row's value is the mean over
    its completions. As in TRL, a completion's total skips missing rewards; without_reward: completions that have none,
    if any, which are not counted; without: by reward, how many of the others lack it, if any.
    """
    assert plan.evaluation is not None
    how, columns = plan.evaluation, _columns(judged, plan)
    rows = len({row.row for row in judged})
    more: dict[str, Any] = {"set": how.name} if how.name else {}
    more |= {} if how.samples == 1 else {"samples": how.samples}
    if how.passes is not None:
        more["passes"] = {"reward": how.passes.reward, "at_least": how.passes.at_least}
    weights, judges = _weights(judged, plan), _judges(plan)
    counted = [row for row in judged if _total(row, weights, judges) is not None]
    missing = without_score(judged, plan)
    more |= {"without_score": missing} if missing else {}
    more |= {"without_reward": unrewarded} if (unrewarded := len(judged) - len(counted) - missing) else {}
    lacks = {name: sum(row.rewards[name] is None for row in counted) for name in weights}
    more |= {WITHOUT: lacking} if (lacking := {name: count for name, count in lacks.items() if count}) else {}
    means = {name: _mean(list(column)) for name, column in columns.items()}
    return {"count": rows, "greedy": how.greedy, **more, **_nest(means)}


def without_score(judged: list[JudgedRow], plan: Plan) -> int:
    """Returns the number of completions that a judge should have scored but did not."""
    judges = _judges(plan)
    return sum(_lacks_score(row, judges) for row in judged)


def with_intervals(judged: list[JudgedRow], plan: Plan, seed: int) -> dict[str, Any]:
    """Returns the interval of each figure in the summary's shape, and the method. seed: for drawing rows."""
    how = {"level": LEVEL, "method": METHOD, "resamples": RESAMPLES, "seed": seed}
    return {**how, **_nest(intervals(_columns(judged, plan), seed))}


def change(before: list[JudgedRow], after: list[JudgedRow], plan: Plan, seed: int) -> dict[str, Any] | None:
    """Returns the change of each figure over the rows of both, with its interval; None if the rows differ.

    Also None if a judge gave no score to a completion: its score could be the whole change. Differences are taken row
    by row and rows are drawn with both values, so differences between rows do not widen the interval; only different
    changes do.
    """
    if [*map(_KEY, before)] != [*map(_KEY, after)] or without_score(before, plan) or without_score(after, plan):
        return None
    return _compare(_columns(before, plan), _columns(after, plan), seed)


def _compare(old: Columns, new: Columns, seed: int) -> dict[str, Any]:
    columns = {
        name: [None if a is None or b is None else b - a for a, b in zip(old[name], new[name], strict=True)]
        for name in new
    }
    means = {name: _mean(list(column)) for name, column in columns.items()}
    return {**_nest(means), "intervals": _nest(intervals(columns, seed))}


def cross_validated(
    evaluations: Mapping[int, list[JudgedRow]], before: list[JudgedRow] | None, plan: Plan, seed: int
) -> dict[str, Any] | None:
    """Returns the figures at the chosen step on rows that did not choose it, with intervals; None if the rows differ.

    Each half of the rows, the even and the odd ones, is measured at the step with the highest reward on the other half,
    of those with the fewest rows without one. evaluations: those that the step was chosen from, by step, in order.
    before: of the untrained policy, for "change".
    """
    first, *others = [[*map(_KEY, judged)] for judged in evaluations.values()]
    if any(rows != first for rows in others):
        return None
    of_steps = {step: _columns(judged, plan) for step, judged in evaluations.items()}
    halves = [{step: columns[REWARD][half::2] for step, columns in of_steps.items()} for half in (1, 0)]
    known = [{step: mean for step, rows in half.items() if (mean := _mean(rows)) is not None} for half in halves]
    if not all(known):
        return None
    chosen = [
        max(means, key=lambda step: (-half[step].count(None), means[step]))
        for half, means in zip(halves, known, strict=True)
    ]
    names = of_steps[chosen[0]]
    columns: Columns = {
        name: [of_steps[chosen[row % 2]][name][row] for row in range(len(values))] for name, values in names.items()
    }
    figures = {"steps": chosen, **_nest({name: _mean(list(column)) for name, column in columns.items()})}
    figures["intervals"] = {"level": LEVEL, **_nest(intervals(columns, seed))}
    if before is not None and [*map(_KEY, before)] == first and not without_score(before, plan):
        figures["change"] = _compare(_columns(before, plan), columns, seed)
    return figures


def turned(before: list[JudgedRow], after: list[JudgedRow], plan: Plan) -> dict[str, Any]:
    """Returns how many rows are right before and after, and examples that changed.

    A row is right if its completion passes; without a pass threshold, if the first reward is 1.0. {} with several
    completions per row, or if a judge gave no score to one.
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
    """Returns pass@1 of each row, and the mean and deviation of its rewards as TRL computes them for a group.

    None where a row has no finite value. pass@1 is also None if the judge that decides passes gave no score to one of
    the completions, or a server returned an empty one, which was not judged. The plan's evaluation must ask for pass@1.
    """
    assert plan.evaluation is not None and plan.evaluation.passes is not None
    by = [name for name in _judges(plan) if name == plan.evaluation.passes.reward]
    empty = [answer for answer in judged if not answer.completion and set(answer.rewards.values()) == {None}]
    unknown = {answer.row for answer in (*empty, *(answer for answer in judged if _lacks_score(answer, by)))}
    columns, weights, judges = _columns(judged, plan), _weights(judged, plan), _judges(plan)
    totals: dict[int, list[float]] = {answer.row: [] for answer in judged}
    for answer in judged:
        if (total := _total(answer, weights, judges)) is not None:
            totals[answer.row].append(total)
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


def _columns(judged: list[JudgedRow], plan: Plan) -> Columns:
    assert plan.evaluation is not None
    how, weights, judges = plan.evaluation, _weights(judged, plan), _judges(plan)
    rows: dict[int, list[JudgedRow]] = {}
    for answer in judged:
        rows.setdefault(answer.row, []).append(answer)
    groups = [rows[row] for row in sorted(rows)]
    columns = {REWARD: [_mean([_total(answer, weights, judges) for answer in group]) for group in groups]}
    for name in weights:
        columns["rewards", name] = [_mean([answer.rewards[name] for answer in group]) for group in groups]
    for k in how.pass_at:
        assert how.passes is not None
        by = [name for name in judges if name == how.passes.reward]
        known = [[answer for answer in group if not _lacks_score(answer, by)] for group in groups]
        judged_rows = [any(answer.rewards[how.passes.reward] is not None for answer in group) for group in known]
        counts = [(len(group), sum(_passed(answer, how.passes) for answer in group)) for group in known]
        columns["pass_at", str(k)] = [
            pass_at(samples, passed, k) if is_judged and samples >= k else None
            for (samples, passed), is_judged in zip(counts, judged_rows, strict=True)
        ]
    return columns


def _weights(judged: list[JudgedRow], plan: Plan) -> dict[str, float]:
    """Returns the weight of each reward that scores; an environment's is 1, as in TRL."""
    judging = () if plan.evaluation is None else plan.evaluation.rewards
    planned = {reward.name: reward.weight for reward in plan.rewards if not judging or reward.name in judging}
    return planned | {name: 1.0 for answer in judged[:1] for name in answer.rewards if name not in planned}


def _judges(plan: Plan) -> list[str]:
    """Returns the names of the rewards that are judges."""
    return [reward.name for reward in plan.rewards if reward.kind == "judge"]


def _lacks_score(row: JudgedRow, judges: Sequence[str]) -> bool:
    """Whether a judge was asked for a score of the completion and returned none."""
    return any(name in row.rewards and row.rewards[name] is None for name in judges)


def _total(row: JudgedRow, weights: Mapping[str, float], judges: Sequence[str]) -> float | None:
    """Returns the weighted sum of a completion's rewards; None without a judge's score."""
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


def _nest(values: Mapping[Name, Any]) -> dict[str, Any]:
    """Returns {"reward": ..., "rewards": {...}, "pass_at": {...}}, the last one only if not empty."""
    nested: dict[str, Any] = {}
    for (group, name), value in values.items():
        (nested.setdefault(group, {}) if group else nested)[name] = value
    return nested
