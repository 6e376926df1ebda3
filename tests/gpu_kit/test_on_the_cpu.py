"""Runs some GPU stages at a small scale, so that they keep working. `make test-gpu DEVICE=cpu` runs all."""

import json
import os
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.stack
ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 900


@pytest.mark.long
def test_stages_pass_and_are_not_run_again(tmp_path: Path, warm_python: Path) -> None:
    out, whole = tmp_path / "out", "3 of 3 passed, 0 left out"
    words = ["--device", "cpu", "--out", str(out), "--work", str(tmp_path / "work")]
    words += ["--stages", "lora,seed_again,zero2"]
    command = [str(warm_python / "python"), "-m", "gpu_kit.run", *words]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    assert ran.returncode == 0, ran.stdout + ran.stderr + (out / "report.md").read_text()
    assert whole in ran.stdout
    found = json.loads((out / "results.json").read_text())["stages"]
    assert found["seed_again"]["figures"]["equal losses"] is True
    assert len(found["lora"]["figures"]["lora: proofs"]) >= 9
    assert not list((tmp_path / "work" / "stages").rglob("*.safetensors")), "a stage leaves no weights"
    again = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    assert again.stdout.splitlines()[1:] == [whole]


def test_a_model_is_whole_and_answers_in_tokens_that_its_tokenizer_knows(tmp_path: Path, warm_python: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from gpu_kit.bench import SCRIPTS
    from gpu_kit.scale import SHAPES

    shape = SHAPES["tiny"]
    words = [str(tmp_path / "model"), "cpu", json.dumps(shape._asdict())]
    command = [str(warm_python / "python"), "-Xwarm", str(SCRIPTS / "make_model.py"), *words]
    subprocess.run(command, check=True, timeout=LIMIT_S)
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "model")
    assert sum(value.numel() for value in model.parameters()) == shape.parameters
    text = tokenizer("17+25=", return_tensors="pt")
    chances = model(**text).logits[0].softmax(-1)
    assert chances[:, len(tokenizer) :].sum(-1).max() < 1e-6
    assert chances[:, : len(tokenizer)].max() < 0.5, "one token alone would make all completions the same"
