"""Parts of plans, and the real worker started in a run folder."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from grpo_recipes.contract.plan_machine import World
from grpo_recipes.contract.plan_sections import Guards
from grpo_recipes.schemas.running import GuardsSection

LORA = {
    "r": 4,
    "lora_alpha": 8,
    "lora_dropout": 0.1,
    "target_modules": "all-linear",
    "task_type": "CAUSAL_LM",
}
NF4 = {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4", "bnb_4bit_compute_dtype": "float32"}

Changes = dict[str, Any]
# What starts a worker; the fixture `warm` takes one that has the libraries already.
PYTHON = sys.executable


@dataclasses.dataclass(frozen=True, slots=True)
class Trained:
    """One training: how it ended (of several ranks, how each did), what all printed, its run.json and run folder."""

    exit_code: int
    exit_codes: list[int]
    output: str
    record: Changes
    folder: Path

    def proofs(self) -> dict[str, Changes]:
        """The proofs of run.json by id."""
        return {proof["id"]: proof for proof in self.record["proofs"]}

    def guards(self) -> dict[str, Changes]:
        """The guards that spoke, by name."""
        return {guard["name"]: guard for guard in self.record["guards"]}


def planned_data(path: Path, **changes: Any) -> Changes:
    """The data section of a plan: a .jsonl file of sums."""
    return {
        "source": "file",
        "path": str(path),
        "format": "json",
        "name": None,
        "split": "train",
        "revision": None,
        "prompt": "{{ question }}",
        "prompt_format": "conversational",
        "system_prompt": None,
        "columns": {"solution": "{{ answer }}"},
        "max_rows": None,
        "sha256": None,
        "rows": None,
        "commit": None,
        "made": None,
        "filter": None,
        "max_prompt_tokens": None,
        "over": "drop",
        "shuffle_seed": None,
        "sort_by": None,
        "source_name": None,
        "weight": None,
        "from_step": 1,
        "in_order": False,
        "environments": [],
        "images": [],
        "max_pixels": None,
        **changes,
    }


def planned_model(model: Path, **changes: Any) -> Changes:
    """The model section of a plan: a folder of which nothing more is known."""
    known = {"revision": None, "commit": None, "sha256": None, "files": {}}
    return {"source": "folder", "path": str(model), **known, **changes}


def planned_world(**changes: Any) -> Changes:
    """The world of a plan: one process."""
    world = World("local", num_nodes=1, num_processes=1, device="cpu", strategy="single")
    return {**dataclasses.asdict(world), **changes}


def planned_reward(target: str, **changes: Any) -> Changes:
    """A shipped reward of a plan."""
    return {
        "kind": "shipped",
        "name": target,
        "target": target,
        "weight": 1.0,
        "kwargs": {},
        "path": None,
        "sha256": None,
        "imports": {},
        "package": None,
        "not_of": [],
        **changes,
    }


def grpo_arguments(**changes: Any) -> Changes:
    """Four steps of two groups of eight short completions."""
    return {
        "learning_rate": 0.003,
        "max_steps": 4,
        "per_device_train_batch_size": 16,
        "gradient_accumulation_steps": 1,
        "steps_per_generation": 1,
        "num_generations": 8,
        "max_completion_length": 6,
        "temperature": 1.0,
        "top_k": 0,
        "beta": 0.0,
        "loss_type": "dapo",
        "bf16": False,
        "gradient_checkpointing": False,
        "use_cpu": True,
        "report_to": [],
        "logging_steps": 1,
        "save_strategy": "no",
        "eval_strategy": "no",
        "seed": 7,
        "reward_weights": [1.0],
        **changes,
    }


def plan_of(
    model: Path, rows: Path, mode: str = "full", *, arguments: Changes | None = None, **sections: Any
) -> Changes:
    """A plan for one process: full, "lora" or "nf4", with changes to GRPOConfig and to the sections."""
    return {
        "plan": 1,
        "world": planned_world(),
        "batch": {
            "micro_batch": 16,
            "accumulation": 1,
            "steps_per_generation": 1,
            "num_generations": 8,
            "prompts": 2,
        },
        "arguments": {
            "GRPOConfig": grpo_arguments(**(arguments or {})),
            "model_init_kwargs": {
                "dtype": "float32",
                **({"device_map": "local_rank"} if mode == "nf4" else {}),
            },
            "LoraConfig": None if mode == "full" else LORA,
            "BitsAndBytesConfig": NF4 if mode == "nf4" else None,
            "quantization_config_in": "GRPOTrainer",
        },
        "model": planned_model(model),
        "tokenizer": {"chat_template_path": None, "add_tokens": [], "chat_template_sha256": None},
        "data": planned_data(rows),
        "rewards": [planned_reward("regex_match", name="digits", kwargs={"pattern": r"\d\d", "full": False})],
        "evaluation": None,
        "guards": dataclasses.asdict(Guards(**GuardsSection().model_dump())),
        "shims": {},
        "expect": {
            "world_size": 1,
            "deepspeed_stage": 0,
            "trainable": "full" if mode == "full" else "lora",
            "trainable_parameters": None,
            "arguments": {"beta": 0.0, "loss_type": "dapo", "per_device_train_batch_size": 16},
            "weights_dtype": "float32",
            "adapter_dtype": {"full": None, "lora": "float32", "nf4": "bfloat16"}[mode],
            "stop": [],
            "stop_token_ids": [],
        },
        "smoke": False,
        "grpo_recipes": "0.1.0",
        "name": "sums",
        "recipe": {"recipe": 1, "name": "sums", "dataset": {"path": str(rows)}},
        "stack": {"python": "3.11.7", "packages": {"trl": "1.16.0"}, "gpus": []},
        "settings": [],
        "deepspeed": None,
        "environment": {},
        "findings": [],
        "expressible": None,
        "vllm": None,
        "accepted": [],
        "made_by": {},
        "recipe_file": None,
        "folder": None,
        "job": {},
        "verified": {},
        "accept_drift": False,
        "memory": None,
        "ancestor": None,
        "extends": None,
        "kept_completions": 4,
        "tools": [],
        "environment_class": None,
        "environment_classes": {},
        "scripted_turns": [],
        "sandbox": "auto",
        "fsdp": None,
        "resample_groups": 0,
        "sources": [],
        "rollout": None,
        "warm_start": None,
        **sections,
    }


def lora_numbers(rank: int) -> int:
    """Numbers in the adapters of the tiny model: (in + out) x rank for each linear layer of its two blocks."""
    shapes = [(64, 64), (64, 32), (64, 32), (64, 64), (64, 128), (64, 128), (128, 64)]
    return 2 * sum((inputs + outputs) * rank for inputs, outputs in shapes)


def environment(**more: str) -> dict[str, str]:
    """A small environment for worker processes, without that of an outer launcher and without the network."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "PYTHONPATH") if name in os.environ}
    return {**kept, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "DS_ACCELERATOR": "cpu", **more}


def start(folder: Path, *options: str, **more: str) -> "subprocess.Popen[str]":
    """The worker as one process; stdout and stderr are one stream."""
    return subprocess.Popen(
        [PYTHON, "-u", "worker/train.py", *options],
        cwd=folder,
        env=environment(**more),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def train(folder: Path, *options: str, **more: str) -> tuple[int, str]:
    """Runs the worker as one process to its end: exit code and output."""
    process = start(folder, *options, **more)
    output, _ = process.communicate(timeout=300)
    return process.returncode, output


def launch(folder: Path, accelerate_yaml: str) -> tuple[int, str]:
    """Runs the worker through accelerate launch to its end: exit code and output."""
    (folder / "accelerate.yaml").write_text(accelerate_yaml)
    launcher = "accelerate.commands.launch"
    done = subprocess.run(
        [PYTHON, "-m", launcher, "--config_file", "accelerate.yaml", "worker/train.py"],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    return done.returncode, done.stdout


DEEPSPEED_YAML = """\
compute_environment: LOCAL_MACHINE
distributed_type: DEEPSPEED
num_machines: 1
num_processes: 2
machine_rank: 0
main_process_port: 0
use_cpu: true
deepspeed_config: {deepspeed_config_file: deepspeed.json, zero3_init_flag: %s}
"""


def launch_deepspeed(folder: Path, how: Changes) -> tuple[int, str]:
    """Runs two processes of the worker with this configuration of DeepSpeed to their end: exit code and output."""
    (folder / "deepspeed.json").write_text(json.dumps(how))
    return launch(folder, DEEPSPEED_YAML % str(how["zero_optimization"]["stage"] == 3).lower())


def events(folder: Path, kind: str) -> list[Changes]:
    """The lines of metrics.jsonl of one kind."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [line for line in lines if line["event"] == kind]


def record(folder: Path) -> Changes:
    """run.json."""
    found: Changes = json.loads((folder / "run.json").read_text())
    return found
