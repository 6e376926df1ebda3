"""What the judged rows of an evaluation come to."""

import dataclasses
import math
from typing import Any

import pytest
from support.plans import small_plan

from grpo_recipes.contract.metrics import evaluation_text, is_at_best
from grpo_recipes.contract.plan import Evaluation, Plan, Reward
from grpo_recipes.contract.plan_sections import Passes
from grpo_recipes.worker.completions.figures import (
    JudgedRow,
    change,
    cross_validated,
    rates,
    summary,
    turned,
    with_intervals,
)

REWARDS = (Reward("shipped", "right", "exact_match", 1.0), Reward("shipped", "short", "valid_json", 0.5))


def plan_with(**changes: Any) -> Plan:
    plan = small_plan(rewards=REWARDS)
    how = Evaluation(plan.data, True, 0, True, 8, {})
    return dataclasses.replace(plan, evaluation=dataclasses.replace(how, **changes))


def judged(*rewards: tuple[float | None, float | None], samples: int = 1) -> list[JudgedRow]:
    """Completions with their rewards, so many of each row."""
    return [
        JudgedRow(place // samples, f"p{place}", f"c{place}", {"right": right, "short": short}, {}, place % samples)
        for place, (right, short) in enumerate(rewards)
    ]


SAMPLED = {"samples": 2, "greedy": False, "pass_at": (1, 2), "passes": Passes("right", 1.0)}


def test_one_completion_of_a_row_has_the_figures_that_it_always_had() -> None:
    rows = judged((1.0, 0.5), (0.0, None), (None, None))
    assert summary(rows, plan_with()) == {
        "count": 3,
        "greedy": True,
        "without_reward": 1,
        "without": {"short": 1},
        "reward": (1.25 + 0.0) / 2,
        "rewards": {"right": 0.5, "short": 0.5},
    }


def test_several_completions_are_averaged_by_row_and_counted_in_pass_at() -> None:
    rows = judged((1.0, 1.0), (0.0, 0.0), (0.0, 0.0), (0.5, None), (1.0, 0.0), (2.0, 0.0), samples=2)
    assert summary(rows, plan_with(**SAMPLED)) == {
        "count": 3,
        "greedy": False,
        "samples": 2,
        "passes": {"reward": "right", "at_least": 1.0},
        "without": {"short": 1},
        "reward": pytest.approx((0.75 + 0.25 + 1.5) / 3),
        "rewards": {"right": pytest.approx((0.5 + 0.25 + 1.5) / 3), "short": pytest.approx(0.5 / 3)},
        "pass_at": {"1": pytest.approx((0.5 + 0 + 1) / 3), "2": pytest.approx(2 / 3)},
    }


def test_each_half_of_the_rows_is_measured_at_the_step_that_the_other_half_chooses() -> None:
    def at(*right: float) -> list[JudgedRow]:
        return judged(*((value, 0.0) for value in right))

    evaluations = {2: at(1, 0, 1, 0), 4: at(0, 0.5, 0, 0.5), 6: at(0.25, 0.5, 0.25, 0.5)}
    found = cross_validated(evaluations, at(0, 0, 0, 0), plan_with(), 1)
    # The even rows choose step 2, where the odd ones are wrong; the odd ones choose step 4, the first of equal ones.
    assert found is not None
    assert (found["steps"], found["reward"], found["change"]["reward"]) == ([4, 2], 0.0, 0.0)
    assert cross_validated({2: at(1, 0), 4: at(1, 0, 1)}, None, plan_with(), 1) is None
    assert cross_validated({2: judged((None, None), (None, None)), 4: at(1, 0)}, None, plan_with(), 1) == {
        "steps": [4, 4],
        "reward": 0.5,
        "rewards": {"right": 0.5, "short": 0.0},
        "intervals": {"level": 0.95, "reward": (0.0, 1.0), "rewards": {"right": (0.0, 1.0), "short": (0.0, 0.0)}},
    }


def test_a_row_that_nothing_judges_is_neither_passed_nor_failed() -> None:
    rows = judged((1.0, 0.0), (0.0, 0.0), (None, 0.0), (None, 0.0), samples=2)
    assert summary(rows, plan_with(**SAMPLED))["pass_at"] == {"1": 0.5, "2": 1.0}
    none = judged((None, 0.0), (None, 0.0), samples=2)
    assert summary(none, plan_with(**SAMPLED))["pass_at"] == {"1": None, "2": None}
    assert with_intervals(none, plan_with(**SAMPLED), 1)["level"] == 0.95


def test_intervals_have_the_shape_of_the_figures_and_say_how_they_were_made() -> None:
    rows = judged(*[(float(place % 3 == 0), 0.5) for place in range(40)], samples=2)
    plan = plan_with(**SAMPLED)
    found = with_intervals(rows, plan, 7)
    assert {key: found[key] for key in ("level", "method", "resamples", "seed")} == {
        "level": 0.95,
        "method": "percentile bootstrap over rows",
        "resamples": 2000,
        "seed": 7,
    }
    figures = summary(rows, plan)
    for group, name in (("rewards", "right"), ("pass_at", "1"), ("pass_at", "2")):
        low, high = found[group][name]
        assert low < figures[group][name] < high
    assert found["rewards"]["short"] == (0.5, 0.5)


def test_a_change_is_taken_row_by_row() -> None:
    # Rows differ by ten, and each becomes better by one: what is uncertain is nothing.
    before = judged(*[(float(place), 0.0) for place in range(10)])
    after = judged(*[(float(place) + 1, None) for place in range(10)])
    found = change(before, after, plan_with(), 7)
    assert found is not None
    assert found["reward"] == 1.0
    assert found["intervals"]["reward"] == (1.0, 1.0)
    assert found["rewards"] == {"right": 1.0, "short": None}
    low, high = with_intervals(after, plan_with(), 7)["reward"]
    assert high - low > 2

    assert change(before, after[1:], plan_with(), 7) is None, "not the same rows"


def test_rows_are_right_by_what_passes_and_else_by_the_first_reward() -> None:
    before, after = judged((0.0, 1.0), (1.0, 0.0)), judged((1.0, 0.0), (1.0, 1.0))
    assert turned(before, after, plan_with())["counts"] == {
        "rows": 2,
        "right_before": 1,
        "right_after": 2,
        "became_right": 1,
        "became_wrong": 0,
        "by": "right of at least 1",
    }
    by_short = turned(before, after, plan_with(passes=Passes("short", 0.5)))
    assert by_short["counts"]["became_wrong"] == 1
    assert [example["after"] for example in by_short["examples"]] == ["c1"]
    assert turned(before, after, plan_with(**SAMPLED)) == {}, "one completion of several turns no row"


JUDGED = (Reward("shipped", "right", "exact_match", 1.0), Reward("judge", "short", "http://127.0.0.1:9/v1", 0.5))


def with_judge(**changes: Any) -> Plan:
    return dataclasses.replace(plan_with(**changes), rewards=JUDGED)


def test_a_completion_without_a_judges_score_has_no_total() -> None:
    rows = judged((1.0, 1.0), (0.0, None), (None, 0.5))
    found = summary(rows, with_judge())
    assert found["reward"] == (1.5 + 0.25) / 2, "and not 0 for the second"
    assert (found["without_score"], found["rewards"]) == (1, {"right": 0.5, "short": 0.75})
    assert "without_score" not in summary(rows, plan_with()), "of a reward that is no judge"
    other_set = [dataclasses.replace(one, rewards={"right": 1.0}) for one in rows]
    assert "without_score" not in summary(other_set, with_judge(rewards=("right",))), "which no judge was asked about"


WHOLE, LACKING = judged((0.0, 1.0), (1.0, 0.0)), judged((1.0, None), (1.0, 1.0))


def test_what_lacks_a_judges_score_is_not_compared() -> None:
    assert change(WHOLE, WHOLE, with_judge(), 7) is not None
    assert change(WHOLE, LACKING, plan_with(), 7) is not None
    for pair in ((WHOLE, LACKING), (LACKING, WHOLE)):
        assert change(*pair, with_judge(), 7) is None
        assert turned(*pair, with_judge(passes=Passes("short", 0.5))) == {}


@pytest.mark.stack
def test_what_lacks_a_judges_score_is_not_the_best() -> None:
    from grpo_recipes.worker.callbacks.best_evaluation import BestEvaluation

    best = BestEvaluation({})
    assert best.is_better({"step": 1, **summary(WHOLE, with_judge())})
    assert not best.is_better({"step": 2, **summary(LACKING, with_judge())})
    assert (best.step, best.since) == (1, 0), "it is neither better nor one more without a gain"


@pytest.mark.stack
def test_a_mean_of_fewer_rows_is_not_the_best() -> None:
    from grpo_recipes.worker.callbacks.best_evaluation import BestEvaluation

    whole, some, plan = judged((0.0, 0.0), (1.0, 0.0)), judged((None, None), (1.0, 1.0)), plan_with()
    assert "without_reward" not in summary(whole, plan)
    assert summary(some, plan)["without_reward"] == 1
    assert "1 completion without any reward, so not counted" in evaluation_text(summary(some, plan))
    best = BestEvaluation({})
    assert [
        best.is_better({"step": 1, **summary(whole, plan)}),
        best.is_better({"step": 2, **summary(some, plan)}),
    ] == [
        True,
        False,
    ]
    assert (best.step, best.since) == (1, 1)
    best = BestEvaluation({})
    assert best.is_better({"step": 1, **summary(some, plan)})
    assert best.is_better({"step": 2, **summary(whole, plan)}), "of more rows, with a lower mean"
    assert (best.step, best.since) == (2, 0)
    few, all_rows = judged(*[(None, None), (1.0, 1.0)] * 2, (1.0, 1.0)), judged(*[(0.0, 0.0)] * 5)
    found = cross_validated({1: few, 2: all_rows}, None, plan, 1)
    assert found is not None and found["steps"] == [1, 2], "the odd rows are whole at step 1, the even ones are not"


def test_rewards_that_some_completions_lack_are_counted_by_name() -> None:
    some = summary(judged((None, 1.0), (1.0, 1.0), (None, None)), plan_with(passes=Passes("right", 1.0), pass_at=(1,)))
    assert (some["without_reward"], some["without"], some["pass_at"]["1"]) == (1, {"right": 1}, 1.0)
    assert evaluation_text(some).endswith(
        "(3 rows, 1 completion without any reward, so not counted, 1 completion without right)"
    )
    assert not is_at_best(some), "1.0 is of one row of three"
    assert is_at_best(summary(judged((1.0, 1.0)), plan_with(passes=Passes("right", 1.0), pass_at=(1,))))


def test_a_row_has_no_rate_without_a_finite_number() -> None:
    plan = plan_with(**SAMPLED)
    nothing = (None, None)
    rows = judged(nothing, nothing, (math.inf, 0.0), (1.0, 0.0), (1.0, 0.0), nothing, (1.0, 0.0), nothing, samples=2)
    rows[-1] = dataclasses.replace(rows[-1], completion="")  # of a server
    assert rates(rows, plan) == [
        {"pass_rate": None, "reward_mean": None, "reward_std": None},
        {"pass_rate": 1.0, "reward_mean": None, "reward_std": None},
        {"pass_rate": 0.5, "reward_mean": 1.0, "reward_std": None},
        {"pass_rate": None, "reward_mean": 1.0, "reward_std": None},
    ]


def test_a_missing_score_of_what_passes_is_no_failure() -> None:
    plan = with_judge(**{**SAMPLED, "passes": Passes("short", 1.0)})
    rows = judged((1.0, 1.0), (1.0, None), (0.0, 1.0), (0.0, 0.0), (0.0, None), (0.0, None), samples=2)
    assert summary(rows, plan)["pass_at"] == {"1": 0.75, "2": 1.0}
    assert [row["pass_rate"] for row in rates(rows, plan)] == [None, 0.5, None]
    assert [row["pass_rate"] for row in rates(rows, plan_with(**SAMPLED))] == [1.0, 0.0, 0.0], "of another reward"
