"""Failure 3 with TRL alone: whether a LoRA adapter trains under gradient checkpointing."""

from pathlib import Path
from typing import Any

from raw_trl import grpo_config, model_folder, trainer

RANK = 4


def lora() -> Any:
    """A LoraConfig over all linear layers, without dropout."""
    from peft import LoraConfig

    return LoraConfig(task_type="CAUSAL_LM", r=RANK, lora_alpha=8, lora_dropout=0.0, target_modules="all-linear")


def train(folder: Path, *, checkpointing: bool, use_reentrant: bool | None) -> dict[str, int]:
    """Two steps; gives how many lora_B there are and how many are not zero any more.

    use_reentrant: None is not given.
    """
    given = {} if use_reentrant is None else {"gradient_checkpointing_kwargs": {"use_reentrant": use_reentrant}}
    config = grpo_config(folder, gradient_checkpointing=checkpointing, **given)
    made = trainer(config, str(model_folder(folder)), peft_config=lora())
    made.train()
    matrices = [tensor for name, tensor in made.model.named_parameters() if "lora_B" in name]
    return {"all": len(matrices), "moved": sum(bool(matrix.any()) for matrix in matrices)}
