"""Recipes of the catalogue, their data and model in small: each method trains two steps, and its proofs hold."""

import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kept_recipes import ROOT
from support.tiny_models import write_tiny_model

pytestmark = pytest.mark.stack
REVERSE_TEXT = ROOT / "recipes/catalogue/bases/reverse_text.py"
RULE = json.dumps({"func_name": "verify_letter_frequency", "letter": "e", "N": 0})
ROWS: dict[str, list[dict[str, Any]]] = {
    "qwen2_5_1_5b_instructions_lora": [
        {"messages": [{"role": "user", "content": f"say {n} with no e"}], "ground_truth": RULE} for n in range(8)
    ],
    "qwen2_5_3b_countdown_full": [{"nums": [n, 2, 3], "target": n + 5} for n in range(8)],
    "qwen3_0_6b_reverse_text_lora": [{"prompt": f"text {n}"} for n in range(8)],
    "llama3_1_8b_gsm8k_qlora": [{"question": f"what is {n}+1", "answer": f"it is\n#### {n + 1}"} for n in range(8)],
}
SMALL = {
    "model.dtype": "float32",
    "training.bf16": "false",
    "dataset.path": "./rows.jsonl",
    "dataset.name": "null",
    "dataset.split": "train",
    "evaluation": "null",
    "generation.max_completion_length": "16",
    "training.prompts_per_step": "4",
    "launch.gpus_per_node": "0",
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("model"), positions=4096)


LONG = ("qwen2_5_1_5b_instructions_lora", "qwen2_5_3b_countdown_full", "qwen3_0_6b_reverse_text_lora")


@pytest.mark.parametrize("name", [pytest.param(name, marks=pytest.mark.long if name in LONG else ()) for name in ROWS])
def test_a_recipe_trains_in_small(
    name: str,
    model: Path,
    tmp_path: Path,
    warm_python: Path,
    grpo_run: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "executable", str(warm_python / "python"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.jsonl").write_text("\n".join(json.dumps(row) for row in ROWS[name]))
    settings = [part for key, value in SMALL.items() for part in ("--set", f"{key}={value}")]
    command = [f"{ROOT}/recipes/catalogue/{name}.yaml", "--smoke", "--out", "run", *settings]
    command += ["--set", f"model.model_name_or_path={model}"]
    command += ["--set", "quantization.bnb_4bit_compute_dtype=float32"] if name.endswith("qlora") else []
    if "reverse_text" in name:
        command += ["--allow-code", hashlib.sha256(REVERSE_TEXT.read_bytes()).hexdigest()]
    done = grpo_run(*command)
    assert done.code == 0, done.err
    record = json.loads((tmp_path / "run/run.json").read_text())
    assert (record["status"], record["step"]) == ("completed", 2)
    # What an untrained model answers by chance earns the reward of one of these tasks, not of the others.
    is_earned = name == "qwen2_5_1_5b_instructions_lora"
    seen = "" if is_earned else "but not everything could be checked, "
    assert f"\nsmoke passed, {seen}peak memory " in done.out
