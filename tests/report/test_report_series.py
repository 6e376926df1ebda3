"""Few points for any number of steps, and which completions are kept of many."""

import random

import pytest
from report_runs import completions, row

from grpo_recipes.report.html.run_data import MOST_STRETCHES, choose_examples, completions_of_event
from grpo_recipes.report.html.series import MOST_NAMES, MOST_POINTS, StepSeries, stretch_width


def filled(count: int) -> StepSeries:
    series = StepSeries()
    for number in range(1, count + 1):
        series.add(
            number, {"event": "step", "step": number, "value": float(number), "odd": number if number % 2 else None}
        )
    return series


def test_few_steps_are_all_there() -> None:
    series = filled(MOST_POINTS)
    assert series.width == 1
    assert series.x == list(range(1, MOST_POINTS + 1)) and series.points_of("value") == [float(x) for x in series.x]
    assert series.points_of("odd")[:3] == [1.0, None, 3.0]


@pytest.mark.parametrize("count", [401, 1000, 10_000])
def test_many_steps_are_means_with_the_least_and_the_most(count: int) -> None:
    series = filled(count)
    assert MOST_POINTS / 2 <= len(series.x) <= MOST_POINTS + 1 and series.x[-1] == count
    for x, mean, least, most in zip(
        series.x, series.points_of("value"), series.points_of("value", min), series.points_of("value", max), strict=True
    ):
        first = x - x % series.width
        steps = [step for step in range(first, first + series.width) if 1 <= step <= count]
        assert (mean, least, most) == (pytest.approx(sum(steps) / len(steps)), steps[0], steps[-1])


def test_the_ends_are_means_of_up_to_ten_steps() -> None:
    assert filled(100).figures["value"].ends() == (5.5, 95.5, 10)
    assert filled(12).figures["value"].ends() == (2.0, 11.0, 3)
    assert filled(1).figures["value"].ends() == (1.0, 1.0, 1)


def test_names_without_an_end_are_left_out() -> None:
    series = StepSeries()
    for number in range(1000):
        series.add(1, {f"name {number}": 1.0, "x" * 1000: 1.0})
    assert len(series.figures) == MOST_NAMES


def test_best_and_worst_of_each_stretch_survive_any_length() -> None:
    draw, kept, rewards = random.Random(1), [], {}
    for number in range(1, 1001):
        rewards[number] = [draw.random() for _ in range(4)]
        kept += completions_of_event(completions(number, *[row(f"{number}", value) for value in rewards[number]]))
    shown, width = choose_examples(kept), stretch_width(rewards, MOST_STRETCHES)
    assert len(kept) == 4000 and len(shown) <= 3 * MOST_STRETCHES
    kinds = [kind for kind, _ in shown]
    assert kinds.count("best") == kinds.count("worst") >= 8
    for kind, sample in shown:
        first = sample.step - sample.step % width
        around = [value for number in range(first, first + width) for value in rewards.get(number, [])]
        wanted = {"best": max(around), "worst": min(around)}.get(kind, sample.total)
        assert sample.total == wanted


def test_completions_of_one_worth_are_shown_as_they_came() -> None:
    kept = completions_of_event(completions(1, row("a", 1.0), row("b", 1.0), row("c", None)))
    assert [(kind, sample.row["completion"]) for kind, sample in choose_examples(kept)] == [("drawn", "a")]
