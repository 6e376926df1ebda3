"""Several sets of held-out rows: each has its own figures, one decides, and the training is the same."""

import dataclasses
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from resumed_runs import killed_after, of_checkpoint, trained_lines, weights
from test_several_processes import for_two
from worker_runs import Changes, Trained, events, planned_data, planned_reward

from grpo_recipes.contract.plan import HeldOutSet
from grpo_recipes.contract.run_record import of_each_set

pytestmark = pytest.mark.stack

Make = Callable[..., Changes]
Train = Callable[..., Trained]
# Without the columns that exact_match reads: its own two rows are judged by a reward that reads none.
PLAIN = [{"q": "1+2="}, {"q": "20+30="}]
DECIDE = {("sums", None), ("plain", False)}
# The held-out set that decides is best at step 2, the other one rises.
PEAK = """
def peak(completions, trainer_state, **kwargs):
    return [10.0 - abs(trainer_state.global_step - 2) for _ in completions]


def rise(completions, trainer_state, **kwargs):
    return [float(trainer_state.global_step) for _ in completions]
"""


@pytest.fixture(scope="module")
def several(make_plan: Make, held_out: Make, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Changes]:
    """A plan of four steps with a set `sums` that decides, and a set `plain`, with changes to its evaluation."""
    file = tmp_path_factory.mktemp("plain") / "plain.jsonl"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in PLAIN))
    plain = planned_data(file, prompt="{{ q }}", columns={})
    python: Changes = {"kind": "python", "sha256": hashlib.sha256(PEAK.encode()).hexdigest()}
    rewards = [planned_reward(f"mine.py:{name}", name=name, **python) for name in ("peak", "rise")]

    def make(**evaluation: Any) -> Changes:
        other = {"name": "plain", "data": plain, "rewards": ["rise"], "passes": None}
        assert set(other) == {one.name for one in dataclasses.fields(HeldOutSet)}
        sets = {"name": "sums", "rewards": ["peak"], "others": [other]}
        how = held_out(**{"every_steps": 1, "keep_best": True, "batch_size": 11, **sets, **evaluation})
        arguments = {"max_steps": 4, "save_strategy": "steps", "save_steps": 1, "reward_weights": [1.0, 1.0]}
        plan = make_plan("lora", arguments=arguments, evaluation=how, rewards=rewards)
        plan["expect"]["arguments"] = {}
        return plan

    return make


@pytest.fixture(scope="module")
def whole(several: Callable[..., Changes], trained: Train, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """The run that was not disturbed."""
    done = trained(several(), user={"mine.py": PEAK}, folder=tmp_path_factory.mktemp("whole"))
    assert done.exit_code == 0, done.output
    return done


def test_each_set_has_its_figures_and_one_decides(whole: Trained) -> None:
    measured = [(line["set"], line["step"], line["count"]) for line in events(whole.folder, "evaluation")]
    assert measured == [one for step in range(5) for one in (("sums", step, 11), ("plain", step, 2))]
    assert {(line["set"], line.get("decides")) for line in events(whole.folder, "evaluation")} == DECIDE
    (first, sums), (second, plain) = of_each_set(whole.record["evaluation"])
    assert (first, second) == ("sums", "plain")
    assert (sums["best"]["step"], sums["after"]["reward"]) == (2, 8.0)
    # Of the other set what belongs to the weights that are handed over: those of step 2, though it went on to rise.
    assert (plain["best"]["step"], plain["best"]["reward"], plain["after"]["reward"]) == (2, 2.0, 4.0)
    assert (list(sums["after"]["rewards"]), list(plain["after"]["rewards"])) == (["peak"], ["rise"])
    assert plain["after"]["intervals"]["reward"] == [4.0, 4.0]
    assert plain["after"]["change"]["reward"] == 4.0
    files = sorted(path.name for path in (whole.folder / "evaluation").iterdir())
    assert files == sorted(f"{name}-step-{step}.jsonl" for name in ("sums", "plain") for step in range(5))
    assert whole.record["final_step"] == 2
    assert weights(whole.folder) == of_checkpoint(whole.folder, 2)
    card = (whole.folder / "final" / "README.md").read_text()
    assert "on 11 held-out rows of sums" in card and "on 2 held-out rows of plain" in card
    assert "evaluation sums at step 4" in whole.output and "evaluation plain at step 4" in whole.output


def test_the_training_is_that_without_any_set(whole: Trained, several: Callable[..., Changes], trained: Train) -> None:
    without = trained(several() | {"evaluation": None}, user={"mine.py": PEAK})
    assert without.exit_code == 0, without.output
    assert of_checkpoint(whole.folder, 4) == of_checkpoint(without.folder, 4) == weights(without.folder) != {}


def test_a_set_has_the_figures_that_it_has_alone(
    whole: Trained, several: Callable[..., Changes], trained: Train
) -> None:
    alone = trained(several(name="", others=[]), user={"mine.py": PEAK})
    assert alone.exit_code == 0, alone.output
    mine = [line for line in events(whole.folder, "evaluation") if line["set"] == "sums"]
    assert [line["reward"] for line in mine] == [line["reward"] for line in events(alone.folder, "evaluation")]
    for step in range(5):
        own, single = (
            (run.folder / "evaluation" / file).read_bytes()
            for run, file in ((whole, f"sums-step-{step}.jsonl"), (alone, f"step-{step}.jsonl"))
        )
        assert own == single


def test_a_killed_run_of_several_sets_is_resumed_to_the_same(
    whole: Trained, several: Callable[..., Changes], trained: Train, tmp_path: Path
) -> None:
    again = killed_after(whole.folder, 3, tmp_path / "again")
    done = trained(several(), user={"mine.py": PEAK}, folder=again, resume=True)
    assert done.exit_code == 0, done.output
    assert weights(again) == weights(whole.folder)
    assert trained_lines(again) == trained_lines(whole.folder)
    kept = ("reward", "step")
    for old, new in zip(of_each_set(whole.record["evaluation"]), of_each_set(done.record["evaluation"]), strict=True):
        for moment in ("before", "after", "best"):
            assert [old[1][moment][key] for key in kept] == [new[1][moment][key] for key in kept], (old[0], moment)

    # Without the best checkpoint neither set has a best step any more.
    lost = killed_after(whole.folder, 3, tmp_path / "lost")
    shutil.rmtree(lost / "checkpoints" / "checkpoint-2")
    done = trained(several(), user={"mine.py": PEAK}, folder=lost, resume=True)
    assert "checkpoint-2 had the best evaluation, but is incomplete" in done.output
    assert [known["best"]["step"] for _, known in of_each_set(done.record["evaluation"])] == [3, 3]


def test_two_processes_measure_the_same(whole: Trained, several: Callable[..., Changes], trained: Train) -> None:
    plan = for_two(several(every_steps=0, keep_best=False))
    plan["arguments"]["GRPOConfig"] |= {"per_device_train_batch_size": 8, "max_steps": 1}
    together = trained(plan, user={"mine.py": PEAK}, ranks=2)
    assert together.exit_codes == [0, 0], together.output
    for name in ("sums", "plain"):
        file = f"evaluation/{name}-step-0.jsonl"
        assert (together.folder / file).read_bytes() == (whole.folder / file).read_bytes()
