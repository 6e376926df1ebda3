"""A completion that a reward or judge failed on leaves its group, is counted, and stops the run if there are many."""

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest
from worker_runs import Changes, Trained, events, planned_reward

from grpo_recipes.contract.plan import Reward
from grpo_recipes.worker._shared.replacing import Refused
from grpo_recipes.worker.user_code.failed_completions import leave_failed_out

pytestmark = pytest.mark.stack
MINE = Reward("python", "mine", "mine.py:mine", 1.0)
JUDGE = Reward("judge", "judge", "http://localhost", 1.0, not_of=("code",))


def marked(values: list[Any]) -> list[Any]:
    """The values with "failed" for FAILED, None for other NaN."""
    import torch

    from grpo_recipes.worker._shared.equal_rewards import is_failed

    flags = is_failed(torch.tensor(values, dtype=torch.float32)).tolist()
    return [
        "failed" if is_one else None if math.isnan(value) else value
        for value, is_one in zip(values, flags, strict=True)
    ]


def inverse(completions: list[str], weights: list[float] | None = None, **_: Any) -> list[float | None]:
    """Raises for an empty completion; None for "none"; divided by the number of completions in the call."""
    factors = weights or [1.0] * len(completions)
    return [
        None if text == "none" else factor / len(text) / len(completions)
        for text, factor in zip(completions, factors, strict=True)
    ]


CASES = [
    pytest.param(["x", "none"], [0.5, None], id="nothing failed"),
    pytest.param(["x", "", "xx", "none", ""], [1 / 3, "failed", 1 / 6, None, "failed"], id="two completions"),
    pytest.param(["x", ""], [1.0, "failed"], id="one of two"),
]


@pytest.mark.parametrize("kind", ["synchronous", "asynchronous"])
@pytest.mark.parametrize(("completions", "expected"), CASES)
def test_a_completion_that_a_function_raises_for_has_failed(
    kind: str, completions: list[str], expected: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    async def later(**given: Any) -> Any:
        return inverse(**given)

    given = {"completions": completions, "weights": [1.0] * len(completions)}
    if kind == "synchronous":
        found = leave_failed_out(inverse, MINE)(**given)
    else:
        found = asyncio.run(leave_failed_out(later, MINE)(**given))
    # The others are scored in one call, so a function that compares completions compares all that are left.
    assert marked(found) == pytest.approx(expected)
    failed = expected.count("failed")
    said = f"reward mine: raised for {failed} of {len(expected)} completions, {failed} so far, which leave their groups"
    assert (said in capsys.readouterr().out) == bool(failed)


def test_a_function_that_raises_for_all_is_a_mistake_in_its_code() -> None:
    with pytest.raises(ZeroDivisionError):
        leave_failed_out(inverse, MINE)(completions=["", ""])


def test_what_the_function_logs_has_a_value_for_each_completion() -> None:
    logged: list[Any] = []

    def logging(completions: list[str], log_extra: Callable[..., None], **_: Any) -> list[float]:
        values = [1 / len(text) for text in completions]
        log_extra("inverse", values)
        return values

    leave_failed_out(logging, MINE)(completions=["x", "", "xx"], log_extra=lambda *given: logged.append(given))
    assert logged == [("inverse", [1.0, None, 0.5])]


def test_a_refusal_is_not_a_failed_completion() -> None:
    def refused(completions: list[str], **_: Any) -> list[float]:
        if "" in completions:
            raise Refused.of("no numbers")
        return [1.0] * len(completions)

    with pytest.raises(Refused):
        leave_failed_out(refused, MINE)(completions=["x", ""])


def test_a_judge_without_a_score_has_failed_where_it_was_asked() -> None:
    def scored(**_: Any) -> list[float | None]:
        return [None, 0.5, None]

    found = leave_failed_out(scored, JUDGE)(completions=["a", "b", "c"], source_name=["math", "math", "code"])
    assert marked(found) == ["failed", 0.5, None]


TEXT = """
def raising(completions, completion_ids, **kwargs):
    return [score(ids) for ids in completion_ids]

def score(ids):
    if ids[0] % 4 == 0:
        raise ConnectionError("the sandbox is down")
    return len(ids) / 16

def other(completions, **kwargs):
    return [1.0] * len(completions)
"""


def test_a_run_goes_on_without_the_completions_that_failed(
    make_plan: Callable[..., Changes], trained: Callable[..., Trained], sha256_of_text: Callable[[str], str]
) -> None:
    rewards = [
        planned_reward(f"mine.py:{name}", kind="python", name=name, sha256=sha256_of_text(TEXT))
        for name in ("raising", "other")
    ]
    arguments = {"max_steps": 2, "reward_weights": [1.0, 1.0], "max_completion_length": 16}
    plan = make_plan("lora", arguments=arguments, rewards=rewards)
    plan["expect"]["arguments"] = {}
    plan["guards"]["failing_judge_share"] = 0.99
    run = trained(plan, user={"mine.py": TEXT})
    assert run.exit_code == 0, run.output
    steps = events(run.folder, "step")
    assert all(0 < step["completions/failed"] < 1 for step in steps)
    assert "judge/failed" not in steps[0]
    assert "reward raising: raised for " in run.output
    assert "ConnectionError: the sandbox is down" in run.output
    (guard,) = run.record["guards"]
    assert (guard["name"], guard["action"]) == ("failing_judge", "note")
    # Their other rewards are left out with them.
    rows = [row for event in events(run.folder, "completions") for row in event["rows"]]
    assert {None} in [set(row["rewards"].values()) for row in rows] or not rows
    assert all(set(row["rewards"].values()) == {None} or None not in row["rewards"].values() for row in rows)
