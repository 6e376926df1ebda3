"""The held-out measure: the policy answers rows it is not trained on, and the rewards judge them."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from accelerate.utils import gather_object

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.completions.ends import ends_of
from grpo_recipes.worker.completions.generation import answers, undisturbed
from grpo_recipes.worker.completions.judging import judge

RIGHT = 1.0
SHOWN_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """One row with its answer. row: counted from 0; rewards: by name, None where a function gave none."""

    row: int
    prompt: str
    completion: str
    rewards: dict[str, float | None]
    columns: dict[str, str]


def evaluate(trainer: Any, plan: Plan, rows: Any, on_batch: Callable[[], None]) -> list[JudgedRow]:
    """All held-out rows judged, in their order, on every rank. All ranks call it; each answers its share.

    Nothing that the training depends on changes: modes of modules and all random states are restored.
    on_batch: called before each batch of prompts, and before the rewards judge the answers.
    """
    assert plan.evaluation is not None
    share = _share(len(rows), trainer.accelerator.process_index, trainer.accelerator.num_processes)
    given = [rows[place] for place in share]
    with undisturbed(trainer):
        completions, tokens = answers(
            trainer,
            [row["prompt"] for row in given],
            plan.evaluation,
            ends_of(trainer, plan),
            on_batch,
        )
        on_batch()
        names = [reward.name for reward in plan.rewards]
        columns = judge(trainer, given, completions, tokens)
    judged = [
        JudgedRow(
            place,
            prompt_text(row["prompt"]),
            prompt_text(completion),
            dict(zip(names, values, strict=True)),
            {name: str(row[name]) for name in plan.evaluation.data.columns},
        )
        for place, row, completion, *values in zip(share, given, completions, *columns, strict=True)
    ]
    if trainer.accelerator.num_processes > 1:
        judged = gather_object(judged)
    return [row for _, row in sorted({row.row: row for row in judged}.items())]


def summary(judged: list[JudgedRow], plan: Plan) -> dict[str, Any]:
    """Means over the rows: each reward (None if it never gave one), their weighted total, the count.

    The total of a row leaves out rewards that gave none, as TRL does; a row without any reward is not counted
    in it.
    """
    weights = {reward.name: reward.weight for reward in plan.rewards}
    totals = [
        sum(weights[name] * value for name, value in row.rewards.items() if value is not None)
        for row in judged
        if any(value is not None for value in row.rewards.values())
    ]
    return {
        "count": len(judged),
        "greedy": plan.evaluation is not None and plan.evaluation.greedy,
        "reward": _mean(totals),
        "rewards": {name: _mean([row.rewards[name] for row in judged]) for name in weights},
    }


def changes(before: list[JudgedRow], after: list[JudgedRow], plan: Plan) -> dict[str, Any]:
    """How many rows the first reward calls right (1.0 or more) before and after; some that became so."""
    first = plan.rewards[0].name
    pairs = [(old, new, _is_right(old, first), _is_right(new, first)) for old, new in zip(before, after, strict=True)]
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


def prompt_text(prompt: Any) -> str:
    """A prompt or completion as a reader wants to see it: the text, or that of the last message."""
    return prompt if isinstance(prompt, str) else str(prompt[-1].get("content") or "")


def _is_right(row: JudgedRow, reward: str) -> bool:
    value = row.rewards[reward]
    return value is not None and value >= RIGHT


def _share(count: int, rank: int, world_size: int) -> list[int]:
    """Every world_size-th row. All shares are equally long; a short one repeats the last row of the data."""
    return [min(start + rank, count - 1) for start in range(0, count, world_size)]


def _mean(values: list[Any]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None
