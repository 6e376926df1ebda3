"""What the judged rows of an evaluation come to: means, pass@k, their intervals, and the change since another one."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grpo_recipes.contract.plan import Passes, Plan
from grpo_recipes.worker.completions.intervals import LEVEL, METHOD, RESAMPLES, intervals
from grpo_recipes.worker.completions.pass_at import pass_at

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

    A row's value is the mean of its completions'. The total of a completion leaves out rewards that gave none, as TRL
    does; one without any reward is not counted in it.
    """
    assert plan.evaluation is not None
    how, columns = plan.evaluation, _columns(judged, plan)
    rows = len({row.row for row in judged})
    more: dict[str, Any] = {} if how.samples == 1 else {"samples": how.samples}
    if how.passes is not None:
        more["passes"] = {"reward": how.passes.reward, "at_least": how.passes.at_least}
    means = {name: _mean(list(column)) for name, column in columns.items()}
    return {"count": rows, "greedy": how.greedy, **more, **_nested(means)}


def with_intervals(judged: list[JudgedRow], plan: Plan, seed: int) -> dict[str, Any]:
    """The interval of each figure of the summary, in its shape, with how it was made. seed: of the draws of rows."""
    found = intervals(_as_texts(_columns(judged, plan)), seed)
    return {**_how(seed), **_nested({name: found[_text(name)] for name in _columns(judged, plan)})}


def change(before: list[JudgedRow], after: list[JudgedRow], plan: Plan, seed: int) -> dict[str, Any] | None:
    """What each figure has changed by, over the rows of both, with its interval; None where these are other rows.

    The difference is taken row by row and rows are drawn with both of their values: how much the rows differ from
    each other does not make it uncertain, only how differently they changed.
    """
    if _rows(before) != _rows(after):
        return None
    old, new = _columns(before, plan), _columns(after, plan)
    columns = {
        name: [None if a is None or b is None else b - a for a, b in zip(old[name], new[name], strict=True)]
        for name in new
    }
    found = intervals(_as_texts(columns), seed)
    means = {name: _mean(list(column)) for name, column in columns.items()}
    return {**_nested(means), "intervals": _nested({name: found[_text(name)] for name in columns})}


def turned(before: list[JudgedRow], after: list[JudgedRow], plan: Plan) -> dict[str, Any]:
    """How many rows are right before and after, and some that became so; {} where rows have several completions.

    A row is right where its completion passes; where nothing says what passes, by the first reward at 1.0.
    """
    assert plan.evaluation is not None
    if plan.evaluation.samples > 1 or not after or len(before) != len(after):
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
        },
        "examples": [
            {"prompt": new.prompt, "before": old.completion, "after": new.completion, "columns": new.columns}
            for old, new in became[:SHOWN_EXAMPLES]
        ],
    }


def _columns(judged: list[JudgedRow], plan: Plan) -> dict[Name, list[float | None]]:
    """The value of each row in each figure, in the order of the rows; None where a row has none."""
    assert plan.evaluation is not None
    how, weights = plan.evaluation, _weights(judged, plan)
    rows: dict[int, list[JudgedRow]] = {}
    for one in judged:
        rows.setdefault(one.row, []).append(one)
    groups = [rows[row] for row in sorted(rows)]
    columns = {REWARD: [_mean([_total(one, weights) for one in group]) for group in groups]}
    for name in weights:
        columns["rewards", name] = [_mean([one.rewards[name] for one in group]) for group in groups]
    for k in how.pass_at:
        assert how.passes is not None
        judged_rows = [any(one.rewards[how.passes.reward] is not None for one in group) for group in groups]
        counts = [(len(group), sum(_passed(one, how.passes) for one in group)) for group in groups]
        columns["pass_at", str(k)] = [
            pass_at(samples, passed, k) if is_judged else None
            for (samples, passed), is_judged in zip(counts, judged_rows, strict=True)
        ]
    return columns


def _weights(judged: list[JudgedRow], plan: Plan) -> dict[str, float]:
    """The weight of each reward; that of an environment has 1, as TRL gives it."""
    planned = {reward.name: reward.weight for reward in plan.rewards}
    return planned | {name: 1.0 for one in judged[:1] for name in one.rewards if name not in planned}


def _total(row: JudgedRow, weights: Mapping[str, float]) -> float | None:
    known = {name: value for name, value in row.rewards.items() if value is not None}
    return sum(weights[name] * value for name, value in known.items()) if known else None


def _passed(row: JudgedRow, passes: Passes) -> bool:
    value = row.rewards[passes.reward]
    return value is not None and value >= passes.at_least


def _rows(judged: list[JudgedRow]) -> list[tuple[int, int]]:
    return [(one.row, one.sample) for one in judged]


def _mean(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def _how(seed: int) -> dict[str, Any]:
    return {"level": LEVEL, "method": METHOD, "resamples": RESAMPLES, "seed": seed}


def _text(name: Name) -> str:
    return "/".join(name)


def _as_texts(columns: Mapping[Name, list[float | None]]) -> dict[str, list[float | None]]:
    return {_text(name): column for name, column in columns.items()}


def _nested(values: Mapping[Name, Any]) -> dict[str, Any]:
    """{"reward": ..., "rewards": {...}, "pass_at": {...}}, the last one only where there is any."""
    found: dict[str, Any] = {}
    for (group, name), value in values.items():
        (found.setdefault(group, {}) if group else found)[name] = value
    return found
