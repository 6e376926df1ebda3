"""Runs of the command on a recipe that is paid for a digit at the beginning, as a user starts them."""

import json
import subprocess
from pathlib import Path
from typing import Any

import yaml
from small_models import write_rows
from vllm_servers import environment, warm

Record = dict[str, Any]
STEPS, TIMEOUT_S = 20, 600
ACCEPTED = ("--accept", "GEN001", "--accept", "GEN008")
APART = "sampling/sampling_logp_difference/mean"
COLOCATE = {"vllm_mode": "colocate", "vllm_max_model_length": 64, "vllm_engine": {"enforce_eager": True}}
SERVER = {"vllm_mode": "server", "vllm_max_model_length": 64, "vllm_engine": {"enforce_eager": True}}


def train(
    folder: Path, model: Path, generation: Record, more: Record, code: int = 0, **variables: str
) -> tuple[Record, list[Record]]:
    """Trains a recipe that is paid for a digit at the beginning; run.json, and the figures of each step."""
    process = start(folder, model, generation, more, **variables)
    said, _ = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == code, said[-6000:]
    assert "Traceback" not in said
    return found(folder)


def start(folder: Path, model: Path, generation: Record, more: Record, **variables: str) -> "subprocess.Popen[str]":
    """Starts that training in folder/run."""
    rows = [{"question": question} for question in "abcdefgh"]
    recipe = {
        "recipe": 1,
        "name": "digit-first",
        "seed": 1,
        "model": {"model_name_or_path": str(model)},
        "dataset": {"path": str(write_rows(folder / "rows.jsonl", rows)), "prompt": "{{ question }}"},
        "rewards": [{"name": "regex_match", "options": {"pattern": "[0-9].*", "full": True}}],
        "generation": {"use_vllm": True, "max_completion_length": 6, **generation},
        "grpo": {"num_generations": 8},
        "training": {"prompts_per_step": 8, "max_steps": STEPS, "learning_rate": 1e-2, "save_steps": 0},
    }
    for section, values in more.items():
        recipe[section] = {**recipe.get(section, {}), **values}  # type: ignore[dict-item]
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe), encoding="utf-8")
    accepted = () if generation.get("weight_sync") == "adapter" else ACCEPTED
    return command(str(path), "--out", str(folder / "run"), *accepted, **variables)


def command(*words: str, **variables: str) -> "subprocess.Popen[str]":
    """Starts `grpo-run`; what it says is in one stream."""
    return subprocess.Popen(
        [warm(), "-m", "grpo_recipes.cli.main", *words],
        env=environment(**variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def found(folder: Path) -> tuple[Record, list[Record]]:
    """run.json, and the figures of each step."""
    metrics = folder / "run" / "metrics.jsonl"
    lines = [json.loads(line) for line in metrics.read_text().splitlines()] if metrics.exists() else []
    record: Record = json.loads((folder / "run" / "run.json").read_text())
    return record, [line for line in lines if line["event"] == "step"]


def proofs(record: Record) -> dict[str, Record]:
    """The proofs by their ids."""
    return {proof["id"]: proof for proof in record["proofs"]}
