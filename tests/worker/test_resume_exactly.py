"""An interrupted run goes on as if nothing had happened: the same weights and the same lines of metrics.jsonl."""

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from resumed_runs import killed_after, trained_lines, weights
from worker_runs import Changes, Trained, events, planned_data, planned_reward, record, start

pytestmark = pytest.mark.stack

Make = Callable[..., Changes]
Train = Callable[..., Trained]
SAVES = {"max_steps": 8, "save_strategy": "steps", "save_steps": 4, "weight_decay": 0.1, "lr_scheduler_type": "cosine"}
FOUR = {"max_steps": 4, "save_steps": 2}
TWO_MICRO_BATCHES = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2}
SYNC = {"beta": 0.1, "sync_ref_model": True, "ref_model_sync_steps": 3, "ref_model_mixup_alpha": 0.6}
CHOSEN = {"filter": "{{ prompt_tokens > 3 and '7' not in question }}", "max_prompt_tokens": 99, "shuffle_seed": 3}
# By name: kind, changes to GRPOConfig and to the data, how often is evaluated, the step of the kill.
CASES: dict[str, tuple[str, Changes, Changes, int | None, int]] = {
    "a checkpoint between two lines of figures, in the second epoch of chosen rows": (
        "full",
        {"logging_steps": 3, **TWO_MICRO_BATCHES},
        CHOSEN | {"max_rows": 6},
        2,
        4,
    ),
    "dropout, checkpointing, two iterations of two steps": (
        "lora",
        {"gradient_checkpointing": True, "num_iterations": 2, "steps_per_generation": 4, **TWO_MICRO_BATCHES},
        {},
        None,
        4,
    ),
    "a checkpoint that is due within a generation, a reference that follows": (
        "full",
        {"num_iterations": 2, "save_steps": 3, **SYNC},
        {},
        None,
        4,
    ),
    "an adapter in bfloat16 on 4 bits": ("nf4", FOUR, {}, None, 2),
    "at the end of the training": ("lora", {"lr_scheduler_type": "constant", **FOUR}, {}, 0, 4),
}


@pytest.mark.parametrize("case", CASES)
def test_a_run_goes_on_from_its_checkpoint_as_if_nothing_had_happened(
    case: str, make_plan: Make, held_out: Make, trained: Train, sums: Path, tmp_path: Path
) -> None:
    mode, arguments, rows, every_steps, step = CASES[case]
    evaluation = None if every_steps is None else held_out(every_steps=every_steps)
    plan = plan_of(make_plan, mode, arguments, evaluation=evaluation, data=planned_data(sums, **rows))
    whole = finished(trained, plan, tmp_path / "whole")

    again = killed_after(whole.folder, step, tmp_path / "again")
    done = trained(plan, folder=again, resume=True)

    assert done.exit_code == 0, done.output
    assert f"resumed from checkpoint-{step}\n" in done.output
    assert [line.get("resumed") for line in events(again, "start")] == [None, [f"resumed from checkpoint-{step}"]]
    assert trained_lines(again) == trained_lines(whole.folder)
    assert weights(again) == weights(whole.folder) != {}
    assert done.record["step"] == plan["arguments"]["GRPOConfig"]["max_steps"]
    assert means(done) == means(whole)


def test_two_processes_go_on_as_one_run(make_plan: Make, trained: Train, sums: Path, tmp_path: Path) -> None:
    arguments = {"logging_steps": 3, "per_device_train_batch_size": 8, **FOUR}
    plan = plan_of(make_plan, "lora", arguments, data=planned_data(sums, **CHOSEN))
    alone = finished(trained, plan_of(make_plan, "lora", {"max_steps": 1}, data=plan["data"]), tmp_path / "alone")
    plan["world"].update(num_processes=2, strategy="ddp")
    plan["expect"]["world_size"] = 2
    whole = finished(trained, plan, tmp_path / "whole", ranks=2)

    again = killed_after(whole.folder, 2, tmp_path / "again")
    done = trained(plan, folder=again, resume=True, ranks=2)

    assert done.exit_codes == [0, 0], done.output
    assert trained_lines(again) == trained_lines(whole.folder)
    assert weights(again) == weights(whole.folder) != {}
    assert done.record["verified"] == whole.record["verified"] == alone.record["verified"]
    assert 0 < alone.record["verified"]["dataset.kept.rows"] < alone.record["verified"]["dataset.rows"]


def means(done: Trained) -> dict[str, float]:
    """The mean rewards of the evaluations that run.json has."""
    return {moment: figures["reward"] for moment, figures in done.record["evaluation"].items() if "reward" in figures}


def plan_of(make_plan: Make, mode: str, arguments: Changes, **sections: Any) -> Changes:
    if mode == "nf4":
        sections = {"shims": {"bnb_cpu_packing": True}, **sections}
    plan = make_plan(mode, arguments={**SAVES, **arguments}, **sections)
    plan["expect"]["arguments"] = {}
    return plan


def finished(trained: Train, plan: Changes, folder: Path, **request: Any) -> Trained:
    folder.mkdir()
    done = trained(plan, folder=folder, **request)
    assert done.exit_code == 0, done.output
    return done


def test_guards_go_on_counting_where_they_were(make_plan: Make, trained: Train, tmp_path: Path) -> None:
    # Completions are cut off at six tokens and no step moves a weight: both guards speak again and again.
    loud = {"truncation": "warn", "truncation_share": 0.1, "no_movement": "warn", "no_movement_steps": 5}
    frozen = {"learning_rate": 0.0, "max_steps": 14}
    plan = plan_of(make_plan, "full", frozen)
    plan["guards"].update(loud)
    whole = finished(trained, plan, tmp_path / "whole")
    spoken = [line for line in trained_lines(whole.folder) if line["event"] == "guard"]
    assert {line["name"] for line in spoken} >= {"no_movement", "truncation"}, spoken

    again = killed_after(whole.folder, 8, tmp_path / "again")
    done = trained(plan, folder=again, resume=True)

    assert done.exit_code == 0, done.output
    assert trained_lines(again) == trained_lines(whole.folder)
    assert done.record["guards"] == whole.record["guards"]


SLOW_REWARD = """
import time

def slow(completions, **kwargs):
    time.sleep(0.3)
    return [float(len(set(completion[0]["content"]))) for completion in completions]
"""


@pytest.mark.usefixtures("warm")
def test_a_signal_within_a_generation_saves_where_it_is_used_up(
    make_plan: Make, make_run: Callable[..., Path], sha256_of_text: Callable[[str], str]
) -> None:
    reward = planned_reward("slow.py:slow", kind="python", name="slow", sha256=sha256_of_text(SLOW_REWARD))
    plan = plan_of(make_plan, "full", {"num_iterations": 3, "max_steps": 30, "save_steps": 30}, rewards=[reward])
    folder = make_run(plan, user={"slow.py": SLOW_REWARD})

    process = start(folder)
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("step 1/"):
            process.send_signal(signal.SIGTERM)
            break
    output = process.communicate(timeout=120)[0]

    assert process.returncode == 75, output
    assert record(folder)["step"] % 3 == 0
    assert record(folder)["launches"] == 1
    assert record(folder)["train_wall_s"] > 0
    assert [path.name for path in (folder / "checkpoints").iterdir()] == [f"checkpoint-{record(folder)['step']}"]


def test_a_checkpoint_that_is_due_within_a_generation_comes_where_it_is_used_up(
    make_plan: Make, trained: Train, tmp_path: Path
) -> None:
    plan = plan_of(make_plan, "full", {"num_iterations": 3, "save_steps": 4, "max_steps": 10})
    done = finished(trained, plan, tmp_path / "run")
    saved = sorted(path.name for path in (done.folder / "checkpoints").iterdir())
    assert saved == ["checkpoint-10", "checkpoint-6", "checkpoint-9"]  # the last one is that of the end


def test_resume_without_a_checkpoint_begins_anew(make_plan: Make, trained: Train, tmp_path: Path) -> None:
    plan = plan_of(make_plan, "full", {"save_strategy": "no", "max_steps": 3})
    whole = finished(trained, plan, tmp_path / "whole")
    again = killed_after(whole.folder, 0, tmp_path / "again")
    done = trained(plan, folder=again, resume=True)
    assert done.exit_code == 0, done.output
    assert "no checkpoint was written yet: training starts at step 0\n" in done.output
    assert trained_lines(again) == trained_lines(whole.folder)
    assert weights(again) == weights(whole.folder)


@pytest.fixture(scope="module")
def four_steps(make_plan: Make, trained: Train, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """A training that saved a checkpoint at step 2."""
    plan = plan_of(make_plan, "full", FOUR)
    return finished(trained, plan, tmp_path_factory.mktemp("four_steps") / "whole")


LARGE = {"measured": 7 << 40, "reserved": None, "estimated": None}


@pytest.mark.parametrize(
    ("before", "launches", "has_cpu"),
    [
        pytest.param({"launches": 1, "train_wall_s": 1000.0, "train_cpu_s": 900.0}, 2, True, id="interrupted"),
        pytest.param({"launches": 2, "train_wall_s": 1000.0, "train_cpu_s": None}, 3, False, id="killed"),
        pytest.param({"launches": None, "train_wall_s": 1000.0, "train_cpu_s": 900.0}, 2, True, id="older record"),
    ],
)
def test_time_and_memory_are_those_of_all_launches(
    before: Changes, launches: int, has_cpu: bool, four_steps: Trained, trained: Train, tmp_path: Path
) -> None:
    plan, whole = json.loads((four_steps.folder / "plan.json").read_text()), four_steps
    assert whole.record["launches"] == 1
    assert 0 < whole.record["train_wall_s"] < 500
    again = killed_after(whole.folder, 2, tmp_path / "again")
    memory = {"update": {**LARGE, "counter": "VmHWM"}, "score": {**LARGE, "counter": "another"}, "evaluation": LARGE}
    content = {**record(again), **before, "memory": memory}
    content = {key: value for key, value in content.items() if key != "launches" or value is not None}
    (again / "run.json").write_text(json.dumps(content))

    done = trained(plan, folder=again, resume=True)

    assert done.exit_code == 0, done.output
    assert done.record["launches"] == launches
    assert 1000 < done.record["train_wall_s"] < 1500
    assert (done.record["train_cpu_s"] is not None) == has_cpu
    assert not has_cpu or 900 < done.record["train_cpu_s"] < 1400
    held = {phase: seen["measured"] for phase, seen in done.record["memory"].items()}
    assert (held["update"], held["evaluation"]) == (7 << 40, 7 << 40)
    assert max(held["score"], held["generate"]) < 1 << 40


def test_a_plan_that_was_edited_is_not_gone_on_with(four_steps: Trained, trained: Train, tmp_path: Path) -> None:
    again = killed_after(four_steps.folder, 2, tmp_path / "again")
    plan = json.loads((again / "plan.json").read_text())
    plan["arguments"]["GRPOConfig"]["temperature"] = 0.5

    done = trained(plan, folder=again, resume=True)

    assert done.exit_code == 3, done.output
    assert "plan.json has changed since checkpoint-2 was written" in done.output
    assert "GRPOConfig.temperature 1.0 -> 0.5" in done.record["message"]
