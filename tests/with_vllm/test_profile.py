"""vLLM answers the rows of a profile, and one that was stopped goes on to the same bytes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from small_models import write_random, write_rows
from vllm_servers import environment

pytestmark = pytest.mark.vllm

# vLLM on a CPU cannot be given weights by TRL itself; cpu_weights does it here.
ACCEPTED = ("--accept", "GEN001", "--accept", "GEN008")
COMMAND = ("-m", "grpo_recipes.cli.main", "profile")
COLOCATE = {"vllm_mode": "colocate", "vllm_max_model_length": 64, "vllm_engine": {"enforce_eager": True}}


def test_rows_are_answered_by_vllm_alike_wherever_it_was_stopped(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "data.jsonl", [{"question": a + b} for a in "abcdefghij" for b in ("", "x", "yz")])
    recipe = {
        "recipe": 1,
        "name": "digit-first",
        "seed": 1,
        "model": {"model_name_or_path": str(write_random(tmp_path / "model"))},
        "dataset": {"path": str(rows), "prompt": "{{ question }}"},
        "rewards": [{"name": "regex_match", "options": {"pattern": "[0-9].*", "full": True}}],
        "generation": {"use_vllm": True, "max_completion_length": 12, **COLOCATE},
        "grpo": {"num_generations": 8},
        "training": {"prompts_per_step": 4, "max_steps": 2},
    }
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe), encoding="utf-8")

    def profiled(name: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, *COMMAND, path, "-o", tmp_path / name, "--samples", "4", *ACCEPTED],
            env=environment(),
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 0, done.stderr
        return (tmp_path / name).read_text().splitlines(keepends=True)

    whole = profiled("whole.jsonl")
    rates = [json.loads(line)["pass_rate"] for line in whole]
    assert len(rates) == 30
    assert len(set(rates)) > 1
    (tmp_path / "rows.partial.jsonl").write_text("".join(whole[:11]))
    assert profiled("rows.jsonl") == whole
