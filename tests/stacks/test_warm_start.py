"""A warm start takes the steps of TRL's SFTTrainer, on several releases: the same gradient, losses and weights."""

import json
from pathlib import Path

import pytest
from laboratory import Laboratory
from rendered import rendered
from small_model import WORDS, write_small_model
from test_same_experiment import recipe

pytestmark = pytest.mark.stacks

STACKS = ["0.19.1/4.52.4", "0.26.2/4.57.6", "1.16.0/5.23.0"]
STEPS = 20


@pytest.mark.parametrize("kind", ["full", "lora"])
@pytest.mark.parametrize("stack", STACKS)
def test_the_steps_are_those_of_sft_trainer(stack: str, kind: str, laboratory: Laboratory, tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    write_small_model(rows / "model")
    letters = WORDS[-11:]
    texts = [
        {"question": letter * (2 + index % 3), "answer": letter * (1 + index % 4)}
        for index, letter in enumerate(letters)
    ]
    (rows / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in texts))
    training = {"max_steps": 1, "optim": "adamw_torch", "max_grad_norm": 1.0, "save_steps": 0}
    warm_start = {"steps": STEPS, "answer": "{{ answer }}", "learning_rate": 1e-3, "warmup_steps": 3}
    wanted = recipe(rows, "grpo", kind, training=training, warm_start=warm_start, grpo={"beta": 0.0})
    run = rendered(wanted, stack, tmp_path / "it")
    assert run.errors == ()

    outcome = laboratory.run(stack, "warm_start_experiments.compared", run_folder=str(run.folder))

    found = outcome.result
    assert found is not None and found["exit_code"] == 0, outcome.output[-4000:]
    assert len(found["own"]) == STEPS and found["own"][-1] < found["own"][0]
    assert found["gradient"] < 1e-6 and found["losses"] < 1e-5 and found["weights"] < 1e-3, found
    assert found["is_as_generated"] and found["dtype"] == "float32", found
