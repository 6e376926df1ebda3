"""A run that was planned when plans did not say who answers held-out rows goes on with who did."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from project import RECIPE, STACK, make_project, planned

WITH_VLLM = STACK.replace("gpus=0", "vllm==0.30.0,accelerate==1.15.0,gpus=1xH100-80GB")
SECTIONS = {
    "generation": {"max_completion_length": 6, "use_vllm": True, "vllm_mode": "colocate"},
    "evaluation": {"path": "./held-out.jsonl", "every_steps": 1, "keep_best": True},
    "training": {**RECIPE["training"], "save_steps": 1},  # type: ignore[dict-item]
}


@pytest.mark.parametrize("is_older", [True, False])
def test_the_evaluation_of_a_run_has_one_who_answers(is_older: bool, tmp_path: Path, grpo_run: Callable) -> None:
    run = planned(make_project(tmp_path / "a", SECTIONS), grpo_run, stack=WITH_VLLM)
    plan = json.loads((run / "plan.json").read_text())
    assert plan["evaluation"]["generated_by"] == "vllm"
    if is_older:
        del plan["evaluation"]["generated_by"]
        plan["settings"] = [row for row in plan["settings"] if row["key"] != "evaluation.generated_by"]
    sent = tmp_path / "a" / "plan.json"
    sent.write_text(json.dumps(plan))
    answer = grpo_run(str(sent), "--target", WITH_VLLM, "--validate-only", "--json")
    assert answer.code == 0, answer.out + answer.err
    told = json.loads(answer.out)
    assert [line for line in told["lines"] if line["state"] != "same"] == []
