"""The figures of an evaluation in words, of this release and of those before it."""

from typing import Any

import pytest

from grpo_recipes.contract.metrics import change_text, evaluation_text, figure

OLD = {"event": "evaluation", "step": 2, "count": 200, "greedy": True, "reward": 0.57, "rewards": {"exact": 0.5}}
NEW: dict[str, Any] = {
    **OLD,
    "samples": 8,
    "pass_at": {"1": 0.5, "8": 0.75},
    "intervals": {
        "level": 0.95,
        "reward": [0.5, 0.64],
        "rewards": {"exact": None},
        "pass_at": {"1": [0.43, 0.57], "8": [0.69, 0.81]},
    },
    "change": {
        "from_step": 0,
        "reward": 0.2,
        "rewards": {"exact": -0.1},
        "pass_at": {"8": 0.0},
        "intervals": {"reward": [0.1, 0.3], "rewards": {"exact": [-0.2, 0.01]}, "pass_at": {}},
    },
}


def test_an_evaluation_of_an_older_release_has_its_means() -> None:
    assert evaluation_text(OLD) == "reward 0.57  exact 0.5  (200 rows)"
    assert change_text(OLD) is None


def test_each_figure_has_its_interval_where_there_is_one() -> None:
    assert evaluation_text(NEW) == (
        "reward 0.57 [0.5, 0.64]  exact 0.5  pass@1 0.5 [0.43, 0.57]  pass@8 0.75 [0.69, 0.81]  "
        "(200 rows, 8 completions each, 95% intervals)"
    )
    assert change_text(NEW) == "reward +0.2 [+0.1, +0.3]  exact -0.1 [-0.2, +0.01]  pass@8 +0"


@pytest.mark.parametrize(
    "strange",
    [[1], "0.1 to 0.2", [0.1, "x"], [0.1, float("nan")], {"low": 1}],
    ids=["one end", "a text", "no number", "not a number", "a map"],
)
def test_an_interval_that_is_none_is_left_out(strange: object) -> None:
    event = {"reward": 0.5, "intervals": {"reward": strange}}
    assert evaluation_text(event) == "reward 0.5"
    assert evaluation_text({"reward": 0.5, "intervals": strange}) == "reward 0.5"
    assert change_text({"change": strange}) is None


def test_a_value_is_written_as_asked() -> None:
    assert figure(0.55754, (0.5264, 0.5883)) == "0.5575 [0.5264, 0.5883]"
    assert figure(0.5, None, "+.4f") == "+0.5000"
