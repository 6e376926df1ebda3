"""The recipe that a stage trains: rows of sums, a reward that needs no code, a model made here."""

import json
from pathlib import Path
from typing import Any

ROWS = 512
GROUP = 8
LORA = {"r": 16, "lora_alpha": 32, "lora_dropout": 0.0, "target_modules": "all-linear"}


def write_rows(folder: Path, characters: int) -> Path:
    """Writes questions of so many tokens, one for each character, once."""
    place = folder / f"rows-{characters}.jsonl"
    if not place.exists():
        lines = []
        for number in range(ROWS):
            text = "+".join(str((number * 37 + term * 11) % 89 + 10) for term in range(characters // 3 + 1))
            lines.append(json.dumps({"question": text[: characters - 1] + "="}))
        folder.mkdir(parents=True, exist_ok=True)
        place.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return place


def recipe(
    name: str, model: Path, rows: Path, *, tokens: int, prompts: int, dtype: str = "bfloat16", lora: bool = True
) -> dict[str, Any]:
    """Four steps of groups of eight. Stages change single keys with --set.

    A third of the completions begin with what is rewarded, so that nearly every group has two rewards.
    """
    return {
        "recipe": 1,
        "name": f"gpu-{name}".replace("_", "-").lower(),
        "description": f"The stage {name} of the GPU kit.",
        "seed": 42,
        "model": {"model_name_or_path": str(model), "dtype": dtype},
        **({"lora": LORA} if lora else {}),
        "dataset": {"path": str(rows), "prompt": "{{ question }}"},
        "rewards": [{"name": "regex_match", "options": {"pattern": "^[a-m0-9]"}}],
        "generation": {"use_vllm": False, "max_completion_length": tokens, "temperature": 1.0},
        "grpo": {"num_generations": GROUP, "beta": 0.0, "loss_type": "dapo"},
        "training": {
            "prompts_per_step": prompts,
            "learning_rate": 1e-4 if lora else 1e-6,
            "max_steps": 4,
            "bf16": True,
            "gradient_checkpointing": True,
            "save_steps": 0,
        },
        "guards": {"truncation": "off"},
    }
