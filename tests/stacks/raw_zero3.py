"""Failure 1 with TRL alone: ZeRO-3 in two processes, every parameter sharded, generating with transformers."""

import json
import os
from pathlib import Path
from typing import Any

from raw_checkpointing import lora
from raw_trl import grpo_config, model_folder, trainer

SETTINGS = {
    "zero_optimization": {"stage": 3, "stage3_param_persistence_threshold": 0},
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
    "bf16": {"enabled": "auto"},
}


def _as_launched(folder: Path) -> None:
    """What `accelerate launch` sets for DeepSpeed with a file, and no extension that would have to be compiled."""
    import deepspeed

    settings = folder / "deepspeed.json"
    settings.write_text(json.dumps(SETTINGS))
    os.environ["ACCELERATE_USE_DEEPSPEED"] = "true"
    os.environ["ACCELERATE_DEEPSPEED_CONFIG_FILE"] = str(settings)
    os.environ["ACCELERATE_DEEPSPEED_ZERO3_INIT"] = "true"
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False


def train(folder: Path, *, adapter: bool, beta: float, evaluate: bool) -> dict[str, Any]:
    """Two steps; gives the number of processes, tensors in all and sharded ones, and the losses and evaluations logged.

    evaluate: after each step on two prompts.
    """
    from datasets import Dataset

    _as_launched(folder)
    evaluation = {"eval_strategy": "steps", "eval_steps": 1, "per_device_eval_batch_size": 8} if evaluate else {}
    # use_cpu=True would make accelerate choose plain processes on the CPU in older releases
    config = grpo_config(folder, use_cpu=False, ddp_backend="gloo", beta=beta, **evaluation)
    parts: dict[str, Any] = {"peft_config": lora()} if adapter else {}
    parts |= {"eval_dataset": Dataset.from_list([{"prompt": "2+3="}, {"prompt": "4+5="}])} if evaluate else {}
    made = trainer(config, str(model_folder(folder)), **parts)
    made.train()
    tensors = list(made.model.parameters())
    log = made.state.log_history
    return {
        "processes": made.accelerator.num_processes,
        "tensors": len(tensors),
        "sharded": sum(hasattr(p, "ds_tensor") and p.numel() == 0 for p in tensors),
        "losses": [entry["loss"] for entry in log if "loss" in entry],
        "evaluations": sum("eval_loss" in entry for entry in log),
    }
