"""What a run means: each case beside a healthy neighbour that differs in what the verdict is about."""

import math
import random
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from grpo_recipes.contract.metric_names import ENTROPY, GROUPS_WITHOUT_VARIANCE, MEAN_LENGTH
from grpo_recipes.contract.metrics import is_at_best, trends
from grpo_recipes.contract.run_record import RunRecord
from grpo_recipes.contract.run_verdict import verdicts
from grpo_recipes.explain.verdict_meanings import MEANINGS

STEPS = 40


def trained(**values: tuple[float, float]) -> dict[str, Any]:
    """The trend of a training whose figures go from one value to another, with noise of a hundredth of them."""

    def at(step: int, first: float, last: float) -> float:
        noise = (0.01, -0.02, 0.015, -0.005)[step % 4] * max(abs(first), abs(last)) * (first != last or first != 1)
        return first + (last - first) * step / (STEPS - 1) + noise

    names = {
        "length": MEAN_LENGTH,
        "entropy": ENTROPY,
        "solved": "rewards/solved/mean",
        "solved_std": "rewards/solved/std",
        "form": "rewards/form/mean",
        "form_std": "rewards/form/std",
        "same": GROUPS_WITHOUT_VARIANCE,
    }
    return trends(
        {"event": "step", **{names.get(name, name): at(step, *ends) for name, ends in values.items()}}
        for step in range(STEPS)
    )


def held_out(before: float, after: float, ends: tuple[float, float], **rewards: tuple[float, float]) -> dict[str, Any]:
    """What run.json has of evaluations. rewards: the interval of the change of each."""
    changes = {name: sum(pair) / 2 for name, pair in rewards.items()}
    intervals = {"reward": [*ends], "rewards": {name: [*pair] for name, pair in rewards.items()}}
    change = {"from_step": 0, "reward": after - before, "rewards": changes, "intervals": intervals}
    now = {"step": STEPS, "count": 200, "reward": after, "rewards": dict.fromkeys(rewards, 0.5), "change": change}
    return {"before": {"step": 0, "count": 200, "reward": before, "rewards": {}}, "after": now}


FELL, ROSE, STAYED = (0.6, 0.2, (-0.5, -0.3)), (0.2, 0.6, (0.3, 0.5)), (0.4, 0.42, (-0.05, 0.09))


def of_sets(
    first: Any, other: Any, passes: tuple[float, float] | None = None, **rewards: tuple[float, float]
) -> dict[str, Any]:
    """What run.json has of a set easy, which decides, and of a set hard. passes: the interval of hard's pass@1."""
    easy, hard = held_out(*first), held_out(*other, **rewards)
    if passes is not None:
        change = hard["after"]["change"]
        hard["after"]["pass_at"] = {"1": 0.5}
        change["pass_at"], change["intervals"]["pass_at"] = {"1": sum(passes) / 2}, {"1": [*passes]}
    for name, known in (("easy", easy), ("hard", hard)):
        for figures in known.values():
            figures["set"] = name
    return {**easy, "others": {"hard": hard}}


def in_phases(warm: tuple[float, float], grpo: tuple[float, float]) -> dict[str, Any]:
    """What run.json has of a run that became better in two phases. warm, grpo: the interval of what each brought."""
    known = held_out(*ROSE)
    by = [{"reward": sum(ends) / 2, "intervals": {"reward": [*ends]}} for ends in (warm, grpo)]
    known["after"]["change_since_warm_start"] = by[1]
    return {**known, "warm_start": {"step": 0, "count": 200, "reward": 0.4, "rewards": {}, "change": by[0]}}


def run(**values: Any) -> RunRecord:
    return RunRecord(**{"status": "completed", "step": STEPS, "max_steps": STEPS, "final_step": STEPS, **values})


def blanked(by: float, ends: tuple[float, float], rows: int = 200) -> dict[str, Any]:
    """What run.json has of a run that became better, and of grey images. by: what its images add to the reward."""
    known = held_out(*ROSE)
    grey = {"count": rows, "reward": 0.6 - by, "by_images": {"reward": by, "intervals": {"reward": [*ends]}}}
    return {**known, "blanked": grey}


SOLVED = {"solved": (0.2, 0.6), "solved_std": (0.4, 0.5)}
UP, FLAT = {"reward": (0.2, 0.6)}, {"reward": (0.4, 0.4)}
FORMAT = {
    "count": 200,
    "rewards": {"format": 1.0, "answer": 0.2},
    "intervals": {"rewards": {"format": [1.0, 1.0], "answer": [0.15, 0.25]}},
}
NEARLY = {"count": 1000, "pass_at": {"1": 0.996}}
RIGHT = {"before": {"count": 200, "pass_at": {"1": 1.0}}}
GUARD = {"name": "kl_rise", "action": "warn", "first_step": 9, "count": 2}
CASES = {
    "better": (run(evaluation=held_out(0.2, 0.6, (0.3, 0.5))), ["VRD001"]),
    "better, though training fell": (
        run(evaluation=held_out(0.2, 0.6, (0.3, 0.5)), trend=trained(reward=(0.6, 0.2))),
        ["VRD001"],
    ),
    "better, after a warm start": (run(evaluation=in_phases((0.1, 0.3), (0.05, 0.2))), ["VRD001", "VRD013"]),
    "does not look": (run(evaluation=blanked(0.01, (-0.02, 0.04))), ["VRD001", "VRD010"]),
    "of a constant reward": (run(evaluation=blanked(0.0, (0.0, 0.0))), ["VRD001", "VRD010"]),
    "looks": (run(evaluation=blanked(0.5, (0.4, 0.6))), ["VRD001"]),
    "too few grey images to say so": (run(evaluation=blanked(0.0, (0.0, 0.0), rows=7)), ["VRD001"]),
    "no group had two rewards": (
        run(evaluation=held_out(0.0, 0.0, (0.0, 0.0)), trend=trained(reward=(0, 0), same=(1, 1))),
        ["VRD011"],
    ),
    "nor was anything held out": (run(trend=trained(reward=(0, 0), same=(1, 1))), ["VRD011"]),
    "nor was anything left to gain": (
        run(evaluation={**held_out(1.0, 1.0, (-0.01, 0.0)), **RIGHT}, trend=trained(reward=(1, 1), same=(1, 1))),
        ["VRD004"],
    ),
    "one of two rewards never paid": (
        run(evaluation=held_out(*ROSE), trend=trained(**UP, **SOLVED, form=(0, 0), form_std=(0, 0))),
        ["VRD001", "VRD012"],
    ),
    "one of two rewards was never given": (
        run(evaluation=held_out(*ROSE), trend=trained(**UP, **SOLVED) | {"rewards/form/mean": {"steps": 20}}),
        ["VRD001", "VRD012"],
    ),
    "one of two rewards always paid, and nothing was held out": (
        run(trend=trained(**UP, **SOLVED, form=(1, 1), form_std=(0, 0))),
        ["VRD009", "VRD012"],
    ),
    "both rewards paid": (
        run(evaluation=held_out(*ROSE), trend=trained(**UP, **SOLVED, form=(0, 0.01), form_std=(0, 0.1))),
        ["VRD001"],
    ),
    "a mean that stays the same while values vary": (
        run(evaluation=held_out(*ROSE), trend=trained(**UP, **SOLVED, form=(0, 0), form_std=(0.5, 0.5))),
        ["VRD001"],
    ),
    "an older release, which logs no deviations": (
        run(evaluation=held_out(*ROSE), trend=trained(**UP, solved=(0.2, 0.6), form=(0, 0))),
        ["VRD001"],
    ),
    "the only reward never paid": (
        run(evaluation=held_out(*ROSE), trend=trained(reward=(0, 0), solved=(0, 0), solved_std=(0, 0))),
        ["VRD001"],
    ),
    "few groups had two rewards": (run(trend=trained(reward=(0, 0), same=(1, 0.98))), ["VRD009"]),
    "no change": (run(evaluation=held_out(0.4, 0.42, (-0.05, 0.09)), trend=trained(**FLAT)), ["VRD002"]),
    "barely beyond its interval": (run(evaluation=held_out(0.4, 0.42, (0.001, 0.039))), ["VRD001"]),
    "worse": (run(evaluation=held_out(0.6, 0.2, (-0.5, -0.3))), ["VRD003"]),
    "worse, though training rose": (
        run(evaluation=held_out(0.6, 0.2, (-0.5, -0.3)), trend=trained(**UP)),
        ["VRD003"],
    ),
    "at its best before": (run(evaluation={**held_out(1.0, 1.0, (-0.01, 0.0)), **RIGHT}), ["VRD004"]),
    "at its best before, and worse": (run(evaluation={**held_out(1.0, 0.8, (-0.3, -0.1)), **RIGHT}), ["VRD003"]),
    "training up, held out flat": (
        run(evaluation=held_out(0.4, 0.41, (-0.05, 0.07)), trend=trained(**UP, solved=(0.1, 0.5))),
        ["VRD005"],
    ),
    "longer without reward": (
        run(evaluation=held_out(0.4, 0.4, (-0.1, 0.1)), trend=trained(**FLAT, length=(80, 200))),
        ["VRD002", "VRD006"],
    ),
    "longer with reward": (run(trend=trained(**UP, length=(80, 200))), ["VRD009"]),
    "longer by two tokens": (run(trend=trained(**FLAT, length=(2, 6))), ["VRD009"]),
    "a little longer": (run(trend=trained(**FLAT, length=(80, 100))), ["VRD009"]),
    "a guard of the KL spoke": (run(guards=[GUARD], trend=trained(**FLAT)), ["VRD009", "VRD007"]),
    "entropy rose without reward": (run(trend=trained(**FLAT, entropy=(0.5, 3.0))), ["VRD009", "VRD007"]),
    "entropy rose with reward": (run(trend=trained(**UP, entropy=(0.5, 3.0))), ["VRD009"]),
    "entropy rose a little": (run(trend=trained(**FLAT, entropy=(0.5, 0.9))), ["VRD009"]),
    "rewards contradict each other": (
        run(evaluation=held_out(0.4, 0.5, (0.05, 0.15), short=(0.3, 0.5), solved=(-0.3, -0.1))),
        ["VRD001", "VRD008"],
    ),
    "rewards agree": (
        run(evaluation=held_out(0.4, 0.5, (0.05, 0.15), short=(0.3, 0.5), solved=(-0.1, 0.1))),
        ["VRD001"],
    ),
    "nothing held out": (run(trend=trained(**UP)), ["VRD009"]),
    "too short to say": (run(trend=trends([{"reward": 0.1}] * 7)), []),
    "at its best before in one reward of two, and better": (
        run(evaluation={**held_out(1.2, 1.6, (0.3, 0.5)), "before": FORMAT}),
        ["VRD001"],
    ),
    "at its best before in one reward of two": (
        run(evaluation={**held_out(1.2, 1.2, (-0.1, 0.1)), "before": FORMAT}),
        ["VRD002"],
    ),
    "nearly at its best before, and better": (
        run(evaluation={**held_out(0.996, 0.999, (0.001, 0.005)), "before": NEARLY}),
        ["VRD001"],
    ),
    "failed while its model was written": (run(status="failed", evaluation=held_out(0.2, 0.6, (0.3, 0.5))), []),
    "interrupted": (run(status="interrupted", final_step=None, trend=trained(**UP)), []),
    "of several sets one better, one worse": (
        run(evaluation=of_sets((0.2, 0.6, (0.3, 0.5)), FELL)),
        ["VRD001", "VRD003"],
    ),
    "of several sets that which decides does not move": (
        run(evaluation=of_sets((0.4, 0.42, (-0.05, 0.09)), (0.2, 0.6, (0.3, 0.5)))),
        ["VRD002", "VRD001"],
    ),
    "of several sets one does not move": (
        run(evaluation=of_sets((0.2, 0.6, (0.3, 0.5)), (0.4, 0.42, (-0.05, 0.09)))),
        ["VRD001"],
    ),
    "of several sets one has a better reward and passes as often": (
        run(evaluation=of_sets(ROSE, STAYED, passes=(-0.03, 0.05), exact=(-0.1, 0.1), form=(0.3, 0.5))),
        ["VRD001", "VRD001"],
    ),
    "of several sets one has a worse reward and passes as often": (
        run(evaluation=of_sets(ROSE, STAYED, passes=(-0.03, 0.05), exact=(-0.1, 0.1), form=(-0.5, -0.3))),
        ["VRD001", "VRD003"],
    ),
    "of several sets one has a worse sum and passes as often": (
        run(evaluation=of_sets(ROSE, FELL, passes=(-0.03, 0.05))),
        ["VRD001", "VRD003"],
    ),
    "of several sets one has rewards that contradict each other": (
        run(evaluation=of_sets(ROSE, STAYED, exact=(-0.5, -0.3), form=(0.3, 0.5))),
        ["VRD001", "VRD008"],
    ),
    "of an older worker": (run(evaluation={"before": {"reward": 0.2}, "after": {"reward": 0.6}}), []),
}


@pytest.mark.parametrize("name", CASES)
def test_a_run_means(name: str) -> None:
    record, ids = CASES[name]
    found = verdicts(record)
    assert [one.id for one in found] == ids
    assert all(one.fix for one in found if one.level == "warning")


def test_a_reward_that_never_paid_is_named() -> None:
    record, _ = CASES["one of two rewards never paid"]
    *_, one = verdicts(record)
    assert one.text == "never varied: form was 0 for every completion of every step"


def test_each_phase_has_its_change() -> None:
    record, _ = CASES["better, after a warm start"]
    text = "by phase: reward warm start +0.2 [+0.1, +0.3], GRPO +0.125 [+0.05, +0.2]"
    assert [verdict.text for verdict in verdicts(record)][1:] == [text]


def test_a_warm_start_that_stays_the_best_is_said() -> None:
    known = in_phases((0.1, 0.3), (-0.3, -0.1))
    evaluation = {**known, "best": {**known["warm_start"], "change": known["warm_start"]["change"]}}
    *_, phases = verdicts(run(evaluation=evaluation, final_step=0))
    assert phases.text.endswith(
        "warm start +0.2 [+0.1, +0.3], GRPO nothing better, so final/ has the model of the warm start"
    )


@pytest.mark.parametrize(("warm", "other"), [(None, "a larger grpo.beta"), ({"step": 5}, "a shorter warm_start")])
def test_no_penalty_is_suggested_after_a_warm_start(warm: Any, other: str) -> None:
    (worse,) = verdicts(run(evaluation=held_out(*FELL), warm_start=warm))
    assert worse.fix.endswith(f"; a smaller training.learning_rate, or {other}")


def test_a_verdict_says_which_of_several_sets_it_is_of() -> None:
    record, _ = CASES["of several sets one better, one worse"]
    assert [one.word for one in verdicts(record)] == ["better than before on easy", "worse than before on hard"]


@pytest.mark.parametrize(("way", "word"), [("better", "better than before"), ("worse", "worse than before")])
def test_a_verdict_of_another_set_names_the_reward_that_moved(way: str, word: str) -> None:
    record, _ = CASES[f"of several sets one has a {way} reward and passes as often"]
    assert [one.text for one in verdicts(record)][1].startswith(f"{word} on hard: form 0.")


def test_every_meaning_has_a_case() -> None:
    assert {one for _, ids in CASES.values() for one in ids} == set(MEANINGS)


def test_the_reward_that_rose_in_training_is_named() -> None:
    record, _ = CASES["training up, held out flat"]
    (one,) = verdicts(record)
    assert one.word == "training reward up, held out flat"
    assert one.because == ("solved: 0.1457 -> 0.4543",)


def test_the_model_that_is_handed_over_is_judged() -> None:
    """With keep_best, final/ holds an earlier step than the last one."""
    evaluation = held_out(0.2, 0.1, (-0.2, -0.05))
    evaluation["best"] = {**held_out(0.2, 0.6, (0.3, 0.5))["after"], "step": 20}
    assert [one.id for one in verdicts(run(evaluation=evaluation, final_step=20))] == ["VRD001"]


@pytest.mark.parametrize(
    ("evaluations", "rows", "needed"),
    [(2, 200, "1.2"), (20, 200, "1.6"), (20, 8, "2.3"), (50, 200, "1.7"), (None, 200, "1.6")],
)
@pytest.mark.parametrize("final", [20, STEPS])
def test_a_step_that_was_chosen_by_its_figure_needs_a_wider_interval(
    final: int, evaluations: int | None, rows: int, needed: str
) -> None:
    """The best of many evaluations is above 0 by chance; the last one may be the best."""
    evaluation = held_out(0.4, 0.42, (0.001, 0.039))
    assert [one.id for one in verdicts(run(evaluation=evaluation))] == ["VRD001"]
    best = {**evaluation["after"], "step": final, "count": rows}
    chosen = {**evaluation, "best": best, "after": {**evaluation["after"], "count": rows}}
    if evaluations is not None:
        chosen["chosen_from"] = [*range(evaluations)]
    (one,) = verdicts(run(evaluation=chosen, final_step=final))
    because = f"the step was chosen by these rows: {needed} times this interval must exclude 0"
    assert (one.id, one.because) == ("VRD002", (because,))


def test_a_better_step_says_what_the_choice_gains_on_rows_that_did_not_choose() -> None:
    evaluation = held_out(0.2, 0.6, (0.3, 0.5))
    evaluation["best"] = {**evaluation["after"], "step": STEPS}
    change = {"reward": 0.35, "intervals": {"reward": (0.25, 0.45)}}
    evaluation |= {"chosen_from": [10, 20, STEPS], "cross_validated": {"reward": 0.55, "change": change}}
    (one,) = verdicts(run(evaluation=evaluation, final_step=STEPS))
    assert one.id == "VRD001"
    assert one.because == (
        "the step was chosen by these rows; change on rows that did not choose it: reward +0.35 [+0.25, +0.45]",
    )


@pytest.mark.parametrize(("rows", "ids"), [(2, ["VRD002"]), (7, ["VRD002"]), (8, ["VRD001"])])
def test_a_few_rows_show_no_change(rows: int, ids: list[str]) -> None:
    evaluation = held_out(0.2, 0.6, (0.3, 0.5))
    evaluation["after"]["count"] = rows
    assert [one.id for one in verdicts(run(evaluation=evaluation))] == ids


@pytest.mark.parametrize(("high", "ids"), [(0.1, ["VRD005"]), (0.35, ["VRD002"])])
def test_held_out_rows_that_may_have_gained_as_much_are_not_called_flat(high: float, ids: list[str]) -> None:
    """The training gained 0.31."""
    found = verdicts(run(evaluation=held_out(0.4, 0.5, (-0.1, high)), trend=trained(**UP)))
    assert [one.id for one in found] == ids
    told = "training reward 0.2456 -> 0.5544: these rows cannot show whether it carries over"
    assert (told in found[0].because) == (ids == ["VRD002"])


def test_a_share_that_passes_is_judged_before_the_reward() -> None:
    """Length pays, too, so the reward rose while fewer answers were right."""
    evaluation = held_out(0.2, 0.6, (0.3, 0.5))
    evaluation["after"]["pass_at"] = {"1": 0.3}
    evaluation["after"]["change"] |= {"pass_at": {"1": -0.2}}
    evaluation["after"]["change"]["intervals"]["pass_at"] = {"1": [-0.3, -0.1]}
    (one,) = verdicts(run(evaluation=evaluation))
    assert (one.id, one.text) == ("VRD003", "worse than before: pass@1 0.5 -> 0.3, -0.2 [-0.3, -0.1]")


@pytest.mark.parametrize(
    ("evaluation", "is_best"),
    [
        ({"pass_at": {"1": 1.0}}, True),
        ({"pass_at": {"1": 0.99}, "rewards": {"a": 1.0}}, False),
        ({"rewards": {"a": 1.0}, "intervals": {"rewards": {"a": [1.0, 1.0]}}}, True),
        ({"rewards": {"a": 1.0}, "intervals": {"rewards": {"a": [0.9, 1.1]}}}, False),  # of an unbounded reward
        ({"rewards": {"a": 1.0}, "intervals": {"rewards": {"a": (1.0, 1.0)}}}, True),  # before it is JSON
        (FORMAT, False),
        ({"rewards": {"a": 1.0}}, False),
        ({}, False),
    ],
)
def test_nothing_is_left_to_gain(evaluation: dict[str, Any], is_best: bool) -> None:
    assert is_at_best(evaluation) is is_best


def test_a_trend_is_of_a_quarter_of_the_steps() -> None:
    events: list[dict[str, Any]] = [{"event": "step", "reward": float(step)} for step in range(16)]
    events += [{"event": "evaluation", "reward": 99.0}, {"event": "step", "loss": 1.0}]
    error = pytest.approx(1.5**0.5)  # of 4 steps each side, whose neighbours differ by 1: alike by a half
    assert trends(events)["reward"] == {"first": 1.5, "last": 13.5, "error": error, "steps": 4}


def _moved(rewards: Iterable[float]) -> bool:
    way = {one.word for one in verdicts(run(trend=trends({"reward": reward} for reward in rewards)))}
    return way != {"no clear change in training"}


@pytest.mark.parametrize("count", [8, 12, 20, 40, 200])
@pytest.mark.parametrize("alike", [0.0, 0.2, 0.3])
def test_a_reward_that_only_wanders_has_no_trend(alike: float, count: int) -> None:
    """Steps that are like their neighbours, as real ones are, with nothing to learn: one run of fifty may be wrong."""
    draws, runs, wrong = random.Random(0), 1000 if count < 200 else 250, 0
    for _ in range(runs):
        reward, rewards = 0.0, []
        for _ in range(count):
            reward = alike * reward + draws.gauss(0.0, 0.1)
            rewards.append(0.5 + reward)
        wrong += _moved(rewards)
    assert wrong <= 0.02 * runs


CURVES: dict[str, Callable[[float], float]] = {
    "even": lambda done: done,
    "fast, then flat": lambda done: 1 - math.exp(-4 * done),
    "at once": lambda done: float(done >= 0.5),
    "late": lambda done: float(done >= 0.7),
    "down": lambda done: -done,
}


@pytest.mark.parametrize("count", [16, 40, 200])
@pytest.mark.parametrize("curve", CURVES)
def test_a_reward_that_moves_by_much_more_than_its_noise_has_a_trend(curve: str, count: int) -> None:
    draws = random.Random(0)
    assert _moved(CURVES[curve](step / count) + draws.gauss(0.0, 0.02) for step in range(count))


def test_a_reward_that_no_float_can_add_up_has_no_trend() -> None:
    assert trends({"reward": (-1) ** step * 1.5e308} for step in range(40)) == {}
    assert trends({"reward": (-1) ** step * 1e200} for step in range(40)) == {}


@pytest.mark.parametrize(
    "junk", [{"reward": "x"}, {"reward": {"first": "a"}}, {"reward": {"first": 1.0, "last": 2.0, "error": None}}]
)
def test_a_damaged_trend_says_nothing_wrong(junk: dict[str, Any]) -> None:
    assert verdicts(run(trend=junk)) == []


def test_a_share_of_rows_is_not_said_to_be_all_of_them() -> None:
    evaluation = {**held_out(0.996, 0.996, (-0.003, 0.003)), "before": NEARLY}
    (one,) = verdicts(run(evaluation=evaluation))
    assert one.text == "already at its best before training: 99.6% of the completions of 1000 held-out rows were right"


def test_a_gain_at_the_cost_of_one_reward_is_no_warning() -> None:
    record, _ = CASES["rewards contradict each other"]
    assert [one.level for one in verdicts(record)] == ["good", "note"]
    lost = run(evaluation=held_out(0.4, 0.4, (-0.1, 0.1), short=(0.3, 0.5), solved=(-0.3, -0.1)))
    assert [one.level for one in verdicts(lost)] == ["warning", "warning"]


@pytest.mark.parametrize(
    ("evaluation", "lacks"),
    [
        ({}, "nothing was held out"),
        ({"before": {"reward": 0.5}}, "no change of held-out rows is known"),
        ({"after": {"reward": 0.5}}, "no change of held-out rows is known"),
        ({"before": {"reward": 0.2}, "after": {"reward": 0.6}}, "no change of held-out rows is known"),
        (
            {"before": {"reward": 0.2}, "after": {"reward": 0.6, "without_score": 1}},
            "no change of held-out rows is known, since a judge gave no score to some completions",
        ),
    ],
)
def test_what_was_held_out_is_not_denied(evaluation: dict[str, Any], lacks: str) -> None:
    (one,) = verdicts(run(evaluation=evaluation, trend=trained(**UP)))
    assert one.text == f"training reward up: reward 0.2456 -> 0.5544 (means of 10 steps), {lacks}"


@pytest.mark.parametrize("ends", [FELL, ROSE, STAYED])
def test_a_change_says_what_its_means_leave_out(ends: Any) -> None:
    evaluation = held_out(*ends)
    evaluation["after"] |= {"without_reward": 3, "without": {"solved": 1}}
    (one,) = verdicts(run(evaluation=evaluation))
    assert "3 completions without any reward, so not counted, 1 completion without solved" in one.because


def test_rows_of_which_none_changed_tell_no_size_of_change() -> None:
    (one,) = verdicts(run(evaluation=held_out(0.4, 0.4, (0.0, 0.0))))
    assert (one.id, one.because) == ("VRD002", ())


def test_no_change_of_truncated_completions_needs_longer_ones() -> None:
    (one,) = verdicts(run(evaluation=held_out(*STAYED), metrics={"completions/clipped_ratio": 0.94}))
    assert one.fix is not None
    assert one.fix.startswith("a larger generation.max_completion_length: 94%")
