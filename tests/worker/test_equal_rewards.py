"""Groups without variance are counted, stop a run that has no others, and train nothing."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from resumed_runs import weights
from test_several_processes import for_two
from worker_runs import Changes, Trained, events, planned_reward

from grpo_recipes.contract.metrics import constant_rewards, missing_rewards

pytestmark = pytest.mark.stack

CONSTANT = """
def first(completions, **kwargs):
    return [1.0] * len(completions)

def second(completions, **kwargs):
    return [1.0] * len(completions)
"""
# One group of a step is worth 0.2, the other 1.2; each mean of eight is rounded.
PROMPTS = """
def first(completions, **kwargs):
    return [0.2 if place < 8 else 1.2 for place in range(len(completions))]
"""
# Of three groups of two processes the middle one, of which each has a half, is worth the same.
MIDDLE = """
import os

def first(completions, **kwargs):
    other = 11 * int(os.environ["RANK"])
    return [1.0 + (place == other) for place in range(len(completions))]

def second(completions, **kwargs):
    return [1.0] * len(completions)
"""
# What float32 holds of one, and the next number: the smallest difference that there is.
SMALL = """
def first(completions, **kwargs):
    return [1.0 + place % 3 * 2.0**-23 for place in range(len(completions))]
"""
# float32 has no place for the second reward beside the first one; for that of LARGE it has.
SWALLOWED = """
def first(completions, **kwargs):
    return [1e9] * len(completions)

def second(completions, **kwargs):
    return [float(place % 3) for place in range(len(completions))]
"""
LARGE = """
def first(completions, **kwargs):
    return [3e7 + 4.0 * (place % 2) for place in range(len(completions))]

def second(completions, **kwargs):
    return [2.0 * (place // 2 % 2) for place in range(len(completions))]
"""
SHIM = {"equal_rewards": True}


@pytest.fixture
def plan(make_plan: Callable[..., Changes], sha256_of_text: Callable[[str], str]) -> Callable[..., Changes]:
    """Plans with the functions of a text as rewards, by the weight of each."""

    def make(text: str, weights: list[float], **changes: Any) -> Changes:
        names = ("first", "second", "third")[: len(weights)]
        arguments = {"reward_weights": weights, "max_steps": 3, **changes.pop("arguments", {})}
        known = {"kind": "python", "sha256": sha256_of_text(text)}
        rewards = [
            planned_reward(f"mine.py:{name}", name=name, weight=weight, **known)
            for name, weight in zip(names, weights, strict=True)
        ]
        made = make_plan(changes.pop("mode", "full"), arguments=arguments, rewards=rewards, **changes)
        made["expect"]["arguments"] = {}
        return made

    return make


@pytest.fixture(scope="module")
def untrained(make_plan: Callable[..., Changes], trained: Callable[..., Trained]) -> dict[str, str]:
    """The weights of a training that changes none."""
    return weights(trained(make_plan(arguments={"learning_rate": 0.0, "max_steps": 1})).folder)


SCALED = [
    {"scale_rewards": "group"},
    {"scale_rewards": "batch"},
    {"scale_rewards": "none"},
    {"multi_objective_aggregation": "normalize_then_sum"},
]


@pytest.mark.parametrize("arguments", SCALED, ids=lambda one: next(iter(one.values())))
def test_constant_rewards_train_nothing_and_are_counted(
    arguments: Changes, plan: Callable[..., Changes], trained: Callable[..., Trained], untrained: dict[str, str]
) -> None:
    last = {}
    for shims in ({}, SHIM):
        run = trained(plan(PROMPTS, [1.0], arguments=arguments, shims=shims), user={"mine.py": PROMPTS})
        assert run.exit_code == 0, run.output
        steps = events(run.folder, "step")
        assert [step["groups_without_variance"] for step in steps] == [1.0] * 3
        assert "step 3/3  reward 0.700  groups without variance 100%" in run.output
        last[bool(shims)] = weights(run.folder)
        norms = [step["grad_norm"] for step in steps]
        assert not any(norms) if shims else all(norms), norms
    assert last[True] == untrained != last[False]


def test_the_smallest_difference_is_trained_bit_for_bit(
    plan: Callable[..., Changes], trained: Callable[..., Trained]
) -> None:
    runs = [trained(plan(SMALL, [1.0], shims=shims), user={"mine.py": SMALL}) for shims in ({}, SHIM)]
    assert [run.exit_code for run in runs] == [0, 0]
    assert events(runs[1].folder, "step")[0]["groups_without_variance"] == 0.0
    assert events(runs[1].folder, "step")[0]["grad_norm"] > 0
    assert weights(runs[0].folder) == weights(runs[1].folder)


def test_constant_rewards_are_stopped(plan: Callable[..., Changes], trained: Callable[..., Trained]) -> None:
    stopping = plan(CONSTANT, [1.0, 0.2], arguments={"max_steps": 20, "scale_rewards": "batch"})
    stopping["guards"]["zero_variance_groups"] = 24
    run = trained(stopping, user={"mine.py": CONSTANT})
    assert run.exit_code == 3, run.output
    assert "zero_variance: the guard stopped the run at step 12 [GRD001]" in run.record["message"]
    assert {step["frac_reward_zero_std"] for step in events(run.folder, "step")} == {0.0}, "TRL's own stays TRL's"


def test_large_rewards_are_judged_as_float32_has_them(
    plan: Callable[..., Changes], trained: Callable[..., Trained]
) -> None:
    stopping = plan(SWALLOWED, [1.0, 1.0], arguments={"max_steps": 20}, shims=SHIM)
    stopping["guards"]["zero_variance_groups"] = 24
    run = trained(stopping, user={"mine.py": SWALLOWED})
    assert (run.exit_code, "GRD001" in run.record["message"]) == (3, True), run.output
    runs = [trained(plan(LARGE, [1.0, 1.0], shims=shims), user={"mine.py": LARGE}) for shims in ({}, SHIM)]
    assert [run.exit_code for run in runs] == [0, 0], runs[1].output
    assert [step["groups_without_variance"] for step in events(runs[1].folder, "step")] == [0.0] * 3
    assert weights(runs[0].folder) == weights(runs[1].folder)


def test_a_shim_that_does_not_act_is_seen(plan: Callable[..., Changes], trained: Callable[..., Trained]) -> None:
    run = trained(plan(CONSTANT, [1.0, 0.2], shims=SHIM), "advantages_that_come_back", user={"mine.py": CONSTANT})
    assert run.exit_code != 0
    assert "gradient: the proof failed in step 1 [PRF004]" in run.record["message"]
    assert "in a group whose completions all have the same reward" in run.record["message"]


def test_a_group_that_two_processes_share(plan: Callable[..., Changes], trained: Callable[..., Trained]) -> None:
    arguments = {"per_device_train_batch_size": 12}
    planned = for_two(plan(MIDDLE, [1.0, 0.2], arguments=arguments, shims=SHIM, kept_completions=12))
    planned["expect"]["arguments"] = {}
    run = trained(planned, user={"mine.py": MIDDLE}, ranks=2)
    assert run.exit_codes == [0, 0], run.output
    steps = events(run.folder, "step")
    assert [step["groups_without_variance"] for step in steps] == [1 / 3] * 3
    for line in (run.folder / "completions.jsonl").read_text().splitlines():
        advantages = [row["advantage"] for row in json.loads(line)["rows"]]
        assert all(advantages[:8]) and not any(advantages[8:])


SILENT = """
def first(completions, **kwargs):
    return [float(place % 2) for place in range(len(completions))]

def second(completions, **kwargs):
    return [None] * len(completions)

def third(completions, **kwargs):
    return [0.0] * len(completions)
"""
SOMETIMES = SILENT.replace("[None] * len(completions)", "[None] + [1.0] * (len(completions) - 1)")


@pytest.mark.parametrize(("steps", "text", "count"), [(3, SILENT, 1), (22, SILENT, 1), (3, SOMETIMES, 0)])
def test_rewards_that_never_answer_or_never_pay_are_said_once(
    steps: int, text: str, count: int, plan: Callable[..., Changes], trained: Callable[..., Trained]
) -> None:
    run = trained(plan(text, [1.0, 0.5, 0.5], arguments={"max_steps": steps}), user={"mine.py": text})
    assert run.exit_code == 0, run.output
    assert run.output.count("unused rewards  second: so far they returned None for every completion") == count
    assert missing_rewards(run.record["trend"]) == (["second was None"] if steps > 20 else [])
    assert run.output.count("constant rewards  third was 0 for every completion of 20 steps") == (steps > 20)
    assert constant_rewards(run.record["trend"]) == (["third was 0"] if steps > 20 else [])
