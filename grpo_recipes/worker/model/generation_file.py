"""Keeps the model's own generation_config.json from changing the sampling.

transformers 4.50 to 4.57 let the file override values that are passed explicitly, if these equal transformers' own
defaults and the file was written by transformers 4.50 or newer; transformers 5 takes values that are missing or None
from it (no_repeat_ngram_size, suppress_tokens, ...). So the live model has none of the file's values during training,
and a saved model has all of them again.
"""

from pathlib import Path
from typing import Any

from transformers import (
    GenerationConfig,
)
from transformers.utils import GENERATION_CONFIG_NAME

from grpo_recipes.worker._shared.library import base_model
from grpo_recipes.worker._shared.replacing import replace

# The meaning of the model's tokens and its cache layout: neither changes the sampling.
KEPT = ("bos_token_id", "eos_token_id", "pad_token_id", "cache_implementation")
NO_VALUES = ("transformers_version", "_from_model_config")


def set_aside(trainer: Any) -> dict[str, Any]:
    """Removes the sampling values of generation_config.json from the live model and returns them."""
    model = base_model(trainer, trainer.model)
    own = model.generation_config
    model.generation_config = GenerationConfig(**{name: getattr(own, name) for name in KEPT})
    _write_when_saved(model, own)
    values: dict[str, Any] = own.to_diff_dict()
    return {name: value for name, value in values.items() if name not in (*KEPT, *NO_VALUES)}


def _write_when_saved(model: Any, own: Any) -> None:
    """Makes the model write `own` with its weights, as text: transformers 4 cannot write some files that it reads."""
    text = own.to_json_string()
    write = model.save_pretrained

    def save_pretrained(save_directory: Any, *given: Any, **named: Any) -> None:
        write(save_directory, *given, **named)
        path = Path(save_directory) / GENERATION_CONFIG_NAME
        if path.exists():
            path.write_text(text, encoding="utf-8")

    replace(model, "save_pretrained", save_pretrained)
