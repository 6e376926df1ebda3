"""What the guards make of the trainer's figures, without a trainer."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import grpo_recipes
from grpo_recipes.contract.metric_names import JUDGE_FAILED
from grpo_recipes.contract.plan import Reward
from grpo_recipes.contract.plan_sections import Guards
from grpo_recipes.explain.pages import worker_pages
from grpo_recipes.schemas.running import GuardsSection
from grpo_recipes.worker.guards.alarm import Alarm, Guard, Line
from grpo_recipes.worker.guards.entropy_collapse import EntropyCollapse
from grpo_recipes.worker.guards.failing_judge import FailingJudge
from grpo_recipes.worker.guards.failing_tools import FailingTools
from grpo_recipes.worker.guards.far_from_sampler import FarFromSampler
from grpo_recipes.worker.guards.kl_rise import KlRise
from grpo_recipes.worker.guards.no_movement import NoMovement
from grpo_recipes.worker.guards.no_progress import end_after, longest
from grpo_recipes.worker.guards.slow_tools import SlowTools
from grpo_recipes.worker.guards.truncation import Truncation
from grpo_recipes.worker.guards.unused_tools import UnusedTools
from grpo_recipes.worker.guards.wasted_groups import WastedGroups
from grpo_recipes.worker.guards.zero_variance import FirstRewards, ZeroVariance, of_evaluation

DEFAULTS = Guards(**GuardsSection().model_dump())
Figures = dict[str, float]
CUT, LENGTH = "completions/clipped_ratio", "completions/mean_length"
CALLS, FAILURES = "tools/call_frequency", "tools/failure_frequency"
WAITED, WRITTEN = "tools/seconds", "tools/generating_seconds"
CLIPPED, APART = "clip_ratio/region_mean", "sampling/sampling_logp_difference/mean"


def alarms(guard: Guard, figures: list[Figures], every: int = 1) -> list[tuple[int, Alarm]]:
    """The steps at which a guard speaks. every: optimizer steps between two lines."""
    found = []
    for place, given in enumerate(figures, start=1):
        alarm = guard.look(Line(place * every, every, given, given.get("share")))
        found += [] if alarm is None else [(place * every, alarm)]
    return found


def steps(guard: Guard, figures: list[Figures], every: int = 1) -> list[int]:
    """The steps at which a guard speaks."""
    return [step for step, _ in alarms(guard, figures, every)]


def tool_calls(calls: float, failures: float) -> Figures:
    """What is logged of a step with calls of one tool, add, and of another that works."""
    all_calls = calls + 1.0
    own = {"tools/add/calls": calls, "tools/add/failures": failures}
    return {
        **own,
        "tools/other/calls": 1.0,
        "tools/other/failures": 0.0,
        CALLS: all_calls,
        FAILURES: failures / all_calls,
    }


CASES: list[tuple[str, Callable[[], Guard], list[Figures], list[int]]] = [
    (
        "a group varied once, then all are right",
        lambda: ZeroVariance(DEFAULTS, 16),
        [{"share": 0.9}] + [{"share": 1.0}] * 99,
        [],
    ),
    ("no group has varied", lambda: ZeroVariance(DEFAULTS, 16), [{"share": 1.0}] * 40, [16]),
    ("no group has varied, one prompt in a step", lambda: ZeroVariance(DEFAULTS, 1), [{"share": 1.0}] * 300, [256]),
    ("no group has varied, hundreds in a step", lambda: ZeroVariance(DEFAULTS, 512), [{"share": 1.0}] * 40, [10]),
    ("nothing is known of groups", lambda: ZeroVariance(DEFAULTS, 512), [{}] * 40, []),
    ("half of the groups vary", lambda: WastedGroups(DEFAULTS), [{"share": 0.5}] * 60, []),
    ("nearly none varies any more", lambda: WastedGroups(DEFAULTS), [{"share": 0.95}] * 45, [20, 40]),
    ("half are cut", lambda: Truncation(DEFAULTS, 9), [{CUT: 0.5}] * 30, []),
    ("one step is cut", lambda: Truncation(DEFAULTS, 9), [{CUT: float(n == 3)} for n in range(30)], []),
    ("all are cut", lambda: Truncation(DEFAULTS, 9), [{CUT: 1.0}] * 25, [10, 20]),
    ("all are as long as they may be", lambda: Truncation(DEFAULTS, 9), [{LENGTH: 9.0}] * 10, [10]),
    ("one is shorter", lambda: Truncation(DEFAULTS, 9), [{LENGTH: 8.99}] * 10, []),
    ("each batch is used once", FarFromSampler, [{CLIPPED: 0.0}] * 30, []),
    ("a fourth is clipped", FarFromSampler, [{CLIPPED: 0.25}] * 10, [10]),
    ("a fourth is clipped, by its first name", FarFromSampler, [{"clip_ratio": 0.25}] * 10, [10]),
    ("engines agree", FarFromSampler, [{APART: 0.01}] * 30, []),
    ("engines differ more and still little", FarFromSampler, [{APART: 3e-7}] * 10 + [{APART: 0.015}] * 20, []),
    ("engines have always differed", FarFromSampler, [{APART: 0.02}] * 10 + [{APART: 0.09}] * 20, []),
    ("weights are no longer handed over", FarFromSampler, [{APART: 3e-7}] * 20 + [{APART: 0.05}] * 20, [30, 40]),
    ("engines disagree", FarFromSampler, [{APART: 0.2}] * 30, [10, 20, 30]),
    ("it grows with the policy", KlRise, [{"kl": 0.01 * n} for n in range(100)], []),
    ("it multiplies and stays small", KlRise, [{"kl": 0.001}] * 30 + [{"kl": 0.5}] * 10, []),
    ("one token is an outlier", KlRise, [{"kl": 0.01}] * 30 + [{"kl": 4.0}] + [{"kl": 0.01}] * 9, []),
    ("it jumps", KlRise, [{"kl": 0.01}] * 30 + [{"kl": 3.0}] * 5, [35]),
    ("it was high from the start", KlRise, [{"kl": 3.0}] * 60, []),
    (
        "tools are called now and then",
        lambda: UnusedTools(DEFAULTS),
        [{CALLS: float(n % 19 == 0)} for n in range(99)],
        [],
    ),
    ("no tool is called", lambda: UnusedTools(DEFAULTS), [{CALLS: 0.0}] * 45, [20, 40]),
    ("tools are forgotten", lambda: UnusedTools(DEFAULTS), [{CALLS: 1.0}] * 30 + [{CALLS: 0.0}] * 25, [50]),
    ("nothing is known of tools", lambda: UnusedTools(DEFAULTS), [{}] * 45, []),
    (
        "a tool works now and then",
        FailingTools,
        [tool_calls(4, 4)] * 9 + [tool_calls(4, 3)] + [tool_calls(4, 4)] * 9,
        [],
    ),
    ("a tool always fails", FailingTools, [tool_calls(4, 4)] * 25, [10, 20]),
    ("a tool is not called", FailingTools, [tool_calls(0, 0)] * 25, []),
    ("a tool is called too seldom to say", FailingTools, [tool_calls(7, 7)] + [tool_calls(0, 0)] * 9, []),
    ("tools that are not there are called", FailingTools, [{CALLS: 0.5, FAILURES: 1.0}] * 10, [10]),
    ("tools are quicker than the model", SlowTools, [{WAITED: 3.0, WRITTEN: 4.0}] * 20, []),
    ("tools are slower, and quick all the same", SlowTools, [{WAITED: 0.5, WRITTEN: 0.1}] * 20, []),
    ("tools are slower than the model", SlowTools, [{WAITED: 5.0, WRITTEN: 4.0}] * 20, [10, 20]),
]


@pytest.mark.parametrize(("make", "figures", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_a_guard_speaks_at_its_threshold(
    make: Callable[[], Guard], figures: list[Figures], expected: list[int]
) -> None:
    assert steps(make(), figures) == expected


def test_failures_are_those_of_the_calls_of_a_line() -> None:
    """Of five steps one called a tool, which failed: the mean share of failures is a fifth, and no call worked."""
    line = {CALLS: 0.1, FAILURES: 0.2, "tools/failed_call_frequency": 0.1}
    assert steps(FailingTools(), [line] * 4, every=5) == [10, 20]
    assert steps(FailingTools(), [{**line, "tools/failed_call_frequency": 0.09}] * 4, every=5) == []
    ((step, alarm),) = alarms(FailingTools(), [line] * 2, every=7)
    assert (step, alarm.finding.message) == (14, "every call to any tool in the last 14 steps failed")


def entropy(reward: float) -> list[Figures]:
    """Ten steps of the beginning, and ten with a tenth of the entropy and another reward."""
    start = {"entropy": 1.0, "reward": 0.2, "reward_std": 0.4}
    return [start] * 10 + [{"entropy": 0.1, "reward": reward, "reward_std": 0.4}] * 10


@pytest.mark.parametrize(("reward", "expected"), [(0.9, []), (0.31, []), (0.25, [20]), (0.0, [20])])
def test_entropy_may_fall_where_the_reward_rises(reward: float, expected: list[int]) -> None:
    assert steps(EntropyCollapse(), entropy(reward)) == expected
    assert steps(EntropyCollapse(), [{"entropy": 1.0}] * 30) == []


def test_a_line_counts_for_the_steps_that_it_covers() -> None:
    assert steps(Truncation(DEFAULTS, 9), [{CUT: 1.0}] * 3, every=5) == [10]
    assert steps(ZeroVariance(DEFAULTS, 16), [{"share": 1.0}] * 3, every=10) == [20]


@pytest.mark.parametrize(
    ("figures", "expected", "because"),
    [
        pytest.param(
            {"share": 0.5, "learning_rate": 1e-5, "grad_norm": 0.0}, [20], "gradient is zero", id="zero gradient"
        ),
        pytest.param({"share": 0.5, "learning_rate": 0.0}, [20], "the learning rate is 0", id="no learning rate"),
        pytest.param(
            {"share": 0.5, "learning_rate": 1e-5, "grad_norm": 0.5}, [20], "(gradient norm 0.5", id="lost updates"
        ),
        pytest.param({"share": 0.5}, [20], "had no effect", id="nothing known"),
        pytest.param({"share": 1.0, "learning_rate": 1e-5}, [], "", id="nothing to learn from"),
        pytest.param({"learning_rate": 1e-5}, [], "", id="steps without a generation"),
    ],
)
def test_weights_that_do_not_move_are_told_with_their_cause(
    figures: Figures, expected: list[int], because: str
) -> None:
    found = alarms(NoMovement(DEFAULTS, lambda: False), [figures] * 30)
    assert [step for step, _ in found] == expected
    assert all(because in alarm.finding.because[0] for _, alarm in found)
    assert steps(NoMovement(DEFAULTS, lambda: True), [figures] * 50) == []


def test_a_schedule_that_has_come_down_to_zero_is_no_fault() -> None:
    moving, still = {"share": 0.5, "learning_rate": 1e-5}, {"share": 0.5, "learning_rate": 0.0}
    assert steps(NoMovement(DEFAULTS, lambda: False), [moving] * 5 + [still] * 50) == []
    assert steps(NoMovement(DEFAULTS, lambda: False), [still] * 15 + [moving] * 5) == [20], "a warm-up"


@pytest.mark.parametrize(
    ("durations", "expected"),
    [([100.0] * 4, 1800.0), ([1.0] * 5, 300.0), ([60.0] * 9, 600.0), ([60.0, 1e6, 60.0, 60.0, 1.0], 600.0)],
    ids=["too few steps", "quick steps", "slow steps", "outliers"],
)
def test_a_step_may_take_ten_times_the_median(durations: list[float], expected: float) -> None:
    assert longest(DEFAULTS, durations) == expected
    assert longest(replace(DEFAULTS, no_progress_seconds=7), [0.1] * 5) == 7


def test_processes_that_wait_for_each_other_end_by_their_own_timeout() -> None:
    assert end_after(300.0, None) == 1200.0
    assert end_after(300.0, 600.0) == 1200.0
    assert end_after(300.0, 2000.0) == 2060.0


def test_a_judge_that_fails_is_told_at_each_step_and_is_a_note_below_its_share() -> None:
    lines = [{JUDGE_FAILED: share} for share in (0.0, 0.49, 0.5, 1.0)] + [{"loss": 1.0}]
    told = alarms(FailingJudge(DEFAULTS), lines)
    assert [(step, alarm.is_note) for step, alarm in told] == [(2, True), (3, False), (4, False)]
    assert told[0][1].finding.message == "the judge gave no score to 49 % of the completions"
    told = alarms(FailingJudge(replace(DEFAULTS, failing_judge_share=1.0)), lines)
    assert [step for step, alarm in told if not alarm.is_note] == [4]


def test_every_guard_has_its_page_its_key_and_its_place_in_the_plan() -> None:
    pages = {identity: page for identity, page in worker_pages().items() if identity.startswith("GRD")}
    assert sorted(pages) == [f"GRD{number:03}" for number in range(1, 15)]
    for page in pages.values():
        assert all(f"\n\n{part}" in page for part in ("Threshold: ", "Action: ")) and "\nWhat to do: " in page
    folder = Path(grpo_recipes.__file__).parent / "worker" / "guards"
    names = {path.stem for path in folder.glob("*.py")} - {"__init__", "alarm", "catalog"}
    section = GuardsSection().model_dump()
    assert {name for name, value in section.items() if isinstance(value, str)} == names
    assert list(section) == list(Guards.__dataclass_fields__)


def _first(figures: list[Figures], per_step: int = 64) -> list[tuple[int, str]]:
    first = FirstRewards(per_step, 1.5, lambda: ["a\nb", "c"])
    guard = ZeroVariance(DEFAULTS, 1, first)
    return [(step, alarm.finding.message) for step, alarm in alarms(guard, figures) if alarm.is_note]


def test_first_completions_that_earn_almost_nothing_are_noted_once() -> None:
    nothing: Figures = {"share": 1.0, "reward": 0.0}
    note = "the first 256 completions earn a mean reward of 0"
    assert _first([nothing] * 20) == [(4, note)]
    assert _first([nothing] * 3 + [{"share": 0.9, "reward": 0.02}]) == [(4, f"{note}.005")]
    assert _first([nothing] * 3) == [], "too few to say"
    assert _first([{"share": 1.0, "reward": 0.5}] * 9) == [], "a constant reward is not missing"
    assert _first([{"share": 0.5, "reward": -0.5}] * 9) == [], "penalties that differ"
    assert _first([nothing] * 3 + [{"share": 0.8, "reward": 0.02}]) == [], "a fifth of the groups learns"
    assert _first([{}] * 9) == [], "a release that does not log it"


def _evaluated(*totals: float) -> list[str]:
    judged = [
        SimpleNamespace(row=row, completion=f"no {row}", rewards={"right": total, "short": None})
        for row, total in enumerate(totals)
    ]
    plan: Any = SimpleNamespace(rewards=[SimpleNamespace(name="right", weight=2.0)])
    alarm = of_evaluation(judged, plan, "")
    assert alarm is None or alarm.is_note
    return [] if alarm is None else [alarm.finding.message, *alarm.finding.because]


def test_held_out_rows_that_earn_almost_nothing_are_noted_with_three_answers() -> None:
    examples = "such as 'no 0', 'no 1', 'no 2'"
    assert _evaluated(*[0.0] * 30) == ["0 of the 30 held-out rows earn any reward", examples]
    assert _evaluated(*[0.0] * 99, 1.0) == ["1 of the 100 held-out rows earn any reward", examples]
    assert _evaluated(*[0.0] * 98, 1.0, 1.0) == []
    assert _evaluated(*[0.0] * 19) == [], "too few rows"
    assert _evaluated(*[0.3] * 30) == [], "a constant reward is not missing"
    assert _evaluated(*[-row / 10 for row in range(30)]) == [], "penalties that differ"
    assert _evaluated() == []


def test_a_reward_that_almost_no_held_out_row_earns_is_noted_by_its_name() -> None:
    plan: Any = SimpleNamespace(
        rewards=[
            Reward("shipped", "soft_overlong_punishment", "soft_overlong_punishment", 1.0),
            Reward("shipped", "tag_format", "tag_format", 1.0),
            Reward("python", "right", "user.py:right", 1.0),
        ]
    )

    def note(right: float) -> str | None:
        rewards = {"soft_overlong_punishment": 0.0, "tag_format": 1.0, "right": right}
        judged = [SimpleNamespace(row=row, completion="7", rewards=rewards) for row in range(20)]
        alarm = of_evaluation(judged, plan, "")
        return None if alarm is None else alarm.finding.message

    assert note(0.0) == "0 of the 20 held-out rows earn anything from right, as expected only of a penalty"
    assert note(0.5) is None
