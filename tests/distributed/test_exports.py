"""What two processes trained with their weights cut into shards is exported whole."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from distributed_runs import LIMIT_S, RunOf, environment

pytestmark = [pytest.mark.stack, pytest.mark.distributed]


@pytest.mark.parametrize("kind", ["full", "LoRA", "nf4 LoRA"])
def test_a_run_of_two_zero3_processes_is_exported(kind: str, run_of: RunOf, tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    run, place = run_of("zero3", kind), tmp_path / "exported"
    words = [sys.executable, "-m", "grpo_recipes.cli.main", "export", str(run.folder), "-o", str(place), "--json"]
    done = subprocess.run(words, env=environment(tmp_path), capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    proof = json.loads(done.stdout)["proof"]
    assert proof["difference"] <= proof["allowed"]
    assert "that the run recorded at step 3" in proof["completions"]
    model = AutoModelForCausalLM.from_pretrained(place)
    assert all(weight.numel() for weight in model.parameters())
