"""GRPO trains a model that calls a tool, with vLLM: it samples each turn, and the proofs hold over all of them."""

import hashlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from vllm_servers import environment, warm

pytestmark = pytest.mark.vllm

STEPS, TIMEOUT_S = 3, 400
# vLLM on a CPU cannot be given weights by TRL itself; cpu_weights does it here.
ACCEPTED = ("--accept", "GEN001", "--accept", "GEN008")
CALCULATOR = Path(__file__).resolve().parents[2] / "recipes" / "calculator"
ENGINE = {"vllm_max_model_length": 128, "vllm_engine": {"enforce_eager": True}}
LORA = {"r": 16, "lora_alpha": 32, "lora_dropout": 0.0, "target_modules": "all-linear"}


def _run(folder: Path, mode: str, more: dict[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Trains the small model that calls its calculator in 3 of 10 samples; run.json, and the figures of each step."""
    recipe = {
        "recipe": 1,
        "name": "calculator",
        "seed": 1,
        "model": {"model_name_or_path": str(CALCULATOR / "model")},
        "tools": [{"python": f"{CALCULATOR}/calculator.py:calculate"}],
        "dataset": {
            "path": str(CALCULATOR / "train.jsonl"),
            "prompt": "{{ question }}",
            "columns": {"solution": "{{ answer }}"},
        },
        "rewards": [{"name": "exact_match"}],
        "generation": {
            "use_vllm": True,
            "vllm_mode": mode,
            "max_completion_length": 40,
            "max_tool_calling_iterations": 2,
            **ENGINE,
        },
        "grpo": {"num_generations": 8},
        "training": {"prompts_per_step": 4, "max_steps": STEPS, "learning_rate": 1e-3, "save_steps": 0},
        **more,
    }
    (folder / "recipe.yaml").write_text(yaml.safe_dump(recipe), encoding="utf-8")
    allowed = ("--allow-code", hashlib.sha256((CALCULATOR / "calculator.py").read_bytes()).hexdigest())
    words = (str(folder / "recipe.yaml"), "--out", str(folder / "run"), *ACCEPTED, *allowed)
    done = subprocess.run(
        [warm(), "-m", "grpo_recipes.cli.main", *words],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    lines = [json.loads(line) for line in (folder / "run" / "metrics.jsonl").read_text().splitlines()]
    record: dict[str, Any] = json.loads((folder / "run" / "run.json").read_text())
    return record, [line for line in lines if line["event"] == "step"]


@pytest.mark.parametrize(
    ("mode", "more"),
    [
        pytest.param("colocate", {}, id="colocate"),
        pytest.param("server", {"lora": LORA}, id="server with LoRA", marks=pytest.mark.long),
    ],
)
def test_turns_of_vllm_are_trained_with_the_probabilities_that_they_had(
    mode: str, more: dict[str, Any], tmp_path: Path
) -> None:
    record, steps = _run(tmp_path, mode, more)
    assert len(steps) == STEPS
    assert all(step["tools/calculate/calls"] > 2 for step in steps)
    assert max(step["sampling/sampling_logp_difference/mean"] for step in steps) < 1e-5
    proofs = {proof["id"]: proof for proof in record["proofs"]}
    assert {proof["ok"] for proof in proofs.values()} == {True}, proofs
    assert {"PRF010", "PRF011", "PRF019", "PRF020", "PRF021"} <= set(proofs)
    assert "tool replies outside the loss" in proofs["PRF019"]["shown"]
