"""The checkpoint with the best held-out reward is kept and handed over, and a run may end when nothing gets better."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from resumed_runs import killed_after, of_checkpoint, trained_lines, weights
from worker_runs import Changes, Trained, events, planned_reward

pytestmark = pytest.mark.stack

Make = Callable[..., Changes]
Train = Callable[..., Trained]
# Best after step 2, whatever is trained; what completions are worth beside it is little.
PEAK = """
def peak(completions, trainer_state, **kwargs):
    height = 10.0 - abs(trainer_state.global_step - 2)
    return [height + 0.001 * len(set(completion[0]["content"])) for completion in completions]
"""
SAVES = {"max_steps": 4, "save_strategy": "steps", "save_steps": 1, "save_total_limit": 1}


@pytest.fixture(scope="module")
def peaked(make_plan: Make, held_out: Make) -> Callable[..., Changes]:
    """A plan whose held-out reward is best at step 2 of 4, with changes to its evaluation."""

    def make(mode: str = "lora", arguments: Changes | None = None, **evaluation: Any) -> Changes:
        sha256 = hashlib.sha256(PEAK.encode()).hexdigest()
        reward = planned_reward("mine.py:peak", kind="python", name="peak", sha256=sha256)
        how = held_out(**{"every_steps": 1, "keep_best": True, "batch_size": 11, **evaluation})
        plan = make_plan(mode, arguments={**SAVES, **(arguments or {})}, evaluation=how, rewards=[reward])
        plan["expect"]["arguments"] = {}
        return plan

    return make


@pytest.fixture(scope="module")
def whole(peaked: Callable[..., Changes], trained: Train, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """The run that was not disturbed."""
    done = trained(peaked(), user={"mine.py": PEAK}, folder=tmp_path_factory.mktemp("whole"))
    assert done.exit_code == 0, done.output
    return done


def test_the_best_checkpoint_is_not_rotated_away_and_final_holds_it(whole: Trained) -> None:
    left = sorted(path.name for path in (whole.folder / "checkpoints").iterdir())
    assert left == ["checkpoint-2", "checkpoint-4"]
    assert weights(whole.folder) == of_checkpoint(whole.folder, 2) != of_checkpoint(whole.folder, 4)
    assert not list((whole.folder / "final").glob("*.p*t*")), "states of the training are no part of a model"
    record = whole.record
    assert (record["status"], record["step"], record["final_step"]) == ("completed", 4, 2)
    best, after = record["evaluation"]["best"], record["evaluation"]["after"]
    assert (best["step"], after["step"]) == (2, 4)
    assert best["reward"] > after["reward"]
    assert record["evaluation"]["evaluations_since_best"] == 2
    assert record["evaluation"]["chosen_from"] == [1, 2, 3, 4]
    apart = record["evaluation"]["cross_validated"]
    assert (apart["steps"], apart["reward"]) == ([2, 2], pytest.approx(best["reward"]))
    assert apart["change"]["reward"] == pytest.approx(best["change"]["reward"])
    card = (whole.folder / "final" / "README.md").read_text()
    assert "the model of step 2" in card
    assert "On rows that did not choose it: reward" in card
    summary = json.loads((whole.folder / "final" / "run.json").read_text())
    assert (summary["step"], summary["final_step"]) == (4, 2)


def test_a_run_that_is_killed_after_its_best_and_resumed_hands_over_the_same(
    whole: Trained, peaked: Callable[..., Changes], trained: Train, tmp_path: Path
) -> None:
    again = killed_after(whole.folder, 2, tmp_path / "again")
    shutil.rmtree(again / "evaluation")
    shutil.copytree(whole.folder / "evaluation", again / "evaluation")

    done = trained(peaked(), user={"mine.py": PEAK}, folder=again, resume=True)

    assert done.exit_code == 0, done.output
    assert weights(again) == weights(whole.folder)
    assert trained_lines(again) == trained_lines(whole.folder)
    assert sorted(path.name for path in (again / "checkpoints").iterdir()) == ["checkpoint-2", "checkpoint-4"]

    # All is trained, and the kill came before final/ was there: only the evaluation after the last step is taken again.
    late = killed_after(whole.folder, 4, tmp_path / "late")
    done = trained(peaked(), user={"mine.py": PEAK}, folder=late, resume=True)
    assert done.exit_code == 0, done.output
    assert weights(late) == weights(whole.folder)
    assert done.record["final_step"] == 2


def test_a_best_checkpoint_that_was_removed_is_said_and_forgotten(
    whole: Trained, peaked: Callable[..., Changes], trained: Train, tmp_path: Path
) -> None:
    late = killed_after(whole.folder, 4, tmp_path / "late")
    shutil.rmtree(late / "checkpoints" / "checkpoint-2")

    done = trained(peaked(), user={"mine.py": PEAK}, folder=late, resume=True)

    assert done.exit_code == 0, done.output
    assert "checkpoint-2 had the best evaluation, but is incomplete: only later evaluations count" in done.output
    assert weights(late) == of_checkpoint(late, 4)
    assert done.record["final_step"] == 4


def test_a_training_without_a_better_evaluation_ends_early_and_stays_ended(
    whole: Trained, peaked: Callable[..., Changes], trained: Train, tmp_path: Path
) -> None:
    plan = peaked(stop_after=1)
    (tmp_path / "early").mkdir()
    done = trained(plan, user={"mine.py": PEAK}, folder=tmp_path / "early")

    assert done.exit_code == 0, done.output
    why = "ended early, at step 3 of 4: one evaluation and none better than that of step 2"
    record = done.record
    assert (record["status"], record["step"], record["message"]) == ("completed", 3, why)
    assert record["evaluation"]["ended_early"] == {"step": 3, "max_steps": 4, "because": why}
    assert record["evaluation"]["after"] == record["evaluation"]["latest"]
    assert [line["step"] for line in events(done.folder, "evaluation")] == [0, 1, 2, 3]
    assert [line["step"] for line in events(done.folder, "step")] == [1, 2, 3]
    assert weights(done.folder) == weights(whole.folder), "the same best step of the same training"

    # A kill between the last evaluation and the end: the resumed run takes that again, and comes to the same end.
    again = killed_after(done.folder, 3, tmp_path / "again")
    done = trained(plan, user={"mine.py": PEAK}, folder=again, resume=True)
    assert done.exit_code == 0, done.output
    assert (done.record["step"], done.record["message"]) == (3, why)
    assert weights(again) == weights(whole.folder)


def test_the_model_of_a_warm_start_can_be_the_best(
    peaked: Callable[..., Changes], trained: Train, tmp_path: Path
) -> None:
    falls = PEAK.replace("abs(trainer_state.global_step - 2)", "trainer_state.global_step")
    warm = {
        "steps": 2,
        "answer": "{{ answer }}",
        "learning_rate": 1e-3,
        "lr_scheduler_type": "linear",
        "warmup_steps": 0,
    }
    plan = peaked(at_start=True, stop_after=2) | {"warm_start": warm}
    plan["rewards"][0]["sha256"] = hashlib.sha256(falls.encode()).hexdigest()
    (tmp_path / "whole").mkdir()
    done = trained(plan, user={"mine.py": falls}, folder=tmp_path / "whole")

    assert done.exit_code == 0, done.output
    assert (done.record["step"], done.record["final_step"]) == (2, 0)
    assert (
        done.record["message"]
        == "ended early, at step 2 of 4: 2 evaluations and none better than that of the warm start"
    )
    known = done.record["evaluation"]
    assert (known["chosen_from"], known["best"]["warm_step"]) == ([0, 1, 2], 2)
    assert known["cross_validated"]["steps"] == [0, 0]
    assert weights(done.folder) == of_checkpoint(done.folder, 0) != of_checkpoint(done.folder, 2)
    assert sorted(path.name for path in (done.folder / "checkpoints").iterdir()) == ["checkpoint-0", "checkpoint-2"]
    card = (done.folder / "final" / "README.md").read_text()
    assert "It is the model of the warm start, the best one on held-out rows." in card

    for step in (0, 2):
        again = killed_after(done.folder, step, tmp_path / f"again-{step}")
        shutil.rmtree(again / "evaluation")
        shutil.copytree(done.folder / "evaluation", again / "evaluation")
        same = trained(plan, user={"mine.py": falls}, folder=again, resume=True)
        assert same.exit_code == 0, same.output
        assert (same.record["final_step"], same.record["evaluation"]["chosen_from"]) == (0, [0, 1, 2])
        assert weights(again) == weights(done.folder)


def test_several_completions_of_each_held_out_row_leave_the_weights_as_they_are(
    whole: Trained, peaked: Callable[..., Changes], trained: Train
) -> None:
    bare = peaked() | {"evaluation": None}
    without = trained(bare, user={"mine.py": PEAK})
    sampled = peaked(samples=4, greedy=False, batch_size=44, pass_at=[1, 4], passes={"reward": "peak", "at_least": 9.5})
    with_it = trained(sampled, user={"mine.py": PEAK})

    assert (without.exit_code, with_it.exit_code) == (0, 0), with_it.output
    assert of_checkpoint(with_it.folder, 4) == of_checkpoint(without.folder, 4) == weights(without.folder) != {}
    assert of_checkpoint(with_it.folder, 4) == of_checkpoint(whole.folder, 4)
    measured = events(with_it.folder, "evaluation")
    assert [line["pass_at"]["4"] for line in measured] == [0.0, 0.0, 1.0, 0.0, 0.0]
    assert measured[2]["change"]["pass_at"]["4"] == 1.0
    assert without.record["final_step"] == 4
