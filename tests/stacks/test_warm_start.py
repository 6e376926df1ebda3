"""A warm start takes the steps of TRL's SFTTrainer, on several releases: the same gradient, losses and weights."""

import json
from pathlib import Path
from typing import Any

import pytest
from environments import NEWEST
from laboratory import Laboratory
from rendered import rendered
from resumed_runs import killed_after, trained_lines, weights
from small_model import WORDS, write_small_model
from test_same_experiment import recipe

pytestmark = pytest.mark.stacks

STACKS = ["0.19.1/4.52.4", "0.26.2/4.57.6", NEWEST]
STEPS = 20


def warm_run(stack: str, kind: str, folder: Path, training: dict[str, Any]) -> Path:
    """The run folder of twenty steps on answers, and then some of GRPO."""
    rows = folder / "rows"
    write_small_model(rows / "model")
    texts = [
        {"question": letter * (2 + index % 3), "answer": letter * (1 + index % 4)}
        for index, letter in enumerate(WORDS[-11:])
    ]
    (rows / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in texts))
    training = {"optim": "adamw_torch", "max_grad_norm": 1.0, **training}
    warm_start = {"steps": STEPS, "answer": "{{ answer }}", "learning_rate": 1e-3, "warmup_steps": 3}
    wanted = recipe(rows, "grpo", kind, training=training, warm_start=warm_start, grpo={"beta": 0.0})
    run = rendered(wanted, stack, folder / "it")
    assert run.errors == () and run.folder is not None
    return run.folder


@pytest.mark.parametrize("kind", ["full", "lora"])
@pytest.mark.parametrize("stack", STACKS)
def test_the_steps_are_those_of_sft_trainer(stack: str, kind: str, laboratory: Laboratory, tmp_path: Path) -> None:
    run = warm_run(stack, kind, tmp_path, {"max_steps": 1, "save_steps": 0})

    outcome = laboratory.run(stack, "warm_start_experiments.compared", run_folder=str(run))

    found = outcome.result
    assert found is not None and found["exit_code"] == 0, outcome.output[-4000:]
    assert len(found["own"]) == STEPS and found["own"][-1] < found["own"][0]
    assert found["gradient"] < 1e-6 and found["losses"] < 1e-5 and found["weights"] < 1e-3, found
    assert found["is_as_generated"] and found["dtype"] == "float32", found


@pytest.mark.parametrize("stack", STACKS[:2])
def test_a_run_resumes_after_it(stack: str, laboratory: Laboratory, tmp_path: Path) -> None:
    run = warm_run(stack, "lora", tmp_path, {"max_steps": 3, "save_steps": 2})
    outcome = laboratory.run(stack, "worker_experiments.rows_read", run_folder=str(run), resume=False)
    assert outcome.result is not None and outcome.result["exit_code"] == 0, outcome.output[-4000:]
    again = killed_after(run, 0, tmp_path / "again")
    (again / "run.json").write_text(json.dumps({**json.loads((again / "run.json").read_text()), "checkpoint": None}))

    outcome = laboratory.run(stack, "worker_experiments.rows_read", run_folder=str(again), resume=True)

    assert outcome.result is not None and outcome.result["exit_code"] == 0, outcome.output[-4000:]
    assert "resumed from checkpoint-0" in outcome.output
    assert trained_lines(again) == trained_lines(run)
    assert weights(again) == weights(run) != {}
