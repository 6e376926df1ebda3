"""Writes what an export consists of into a folder."""

import json
import shutil
from pathlib import Path
from typing import Any

from transformers import GenerationConfig
from transformers.utils import GENERATION_CONFIG_NAME

from grpo_recipes.contract.files.folder_files import is_file, names, open_to_read
from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.answering.trained import FINAL
from grpo_recipes.worker.ends.ends import Ends

SHARD = "5GB"
ADAPTER_CONFIG = "adapter_config.json"
# Of a trained model: what an export writes anew.
_ANEW = (
    "README.md",
    "run.json",
    "grpo_run.json",
    "config.json",
    "generation_config.json",
    "training_args.bin",
)
_OF_WEIGHTS = (".safetensors", ".bin", ".index.json", ".pt")


def write_weights(model: Any, place: Path) -> None:
    """The weights in files of 5 GB at most, and the configuration of the model."""
    own = model.generation_config
    model.generation_config = GenerationConfig()  # transformers refuses to write some that it reads; see write_ends
    model.save_pretrained(place, max_shard_size=SHARD)
    model.generation_config = own


def write_adapter(plan: Plan, folder: Path, place: Path) -> None:
    """The adapter as it was trained; its base by its id and commit where it is of the hub."""
    for name in names(folder, FINAL):
        if name.startswith("adapter_"):
            _copy(folder, name, place)
    configuration = json.loads((place / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    if plan.model.source == "hub" and not plan.tokenizer.add_tokens:
        configuration["base_model_name_or_path"] = plan.model.path
        configuration["revision"] = plan.model.commit or plan.model.revision
    text = json.dumps(configuration, indent=2, sort_keys=True) + "\n"
    (place / ADAPTER_CONFIG).write_text(text, encoding="utf-8")


def write_tokenizer(folder: Path, place: Path) -> None:
    """The files of tokenizer, processor and chat template, as the run left them."""
    for name in names(folder, FINAL):
        is_other = name in _ANEW or name.startswith("adapter_") or name.endswith(_OF_WEIGHTS)
        if is_file(folder, f"{FINAL}/{name}") and not is_other:
            _copy(folder, name, place)


def write_ends(own: Any, ends: Ends, place: Path) -> None:
    """The model's own generation_config.json, with all tokens that end a completion of the recipe.

    An added token that has a stop text in it is one of them. Texts themselves are not in it: transformers then asks
    every caller of `generate` for a tokenizer.
    """
    tokens = list(dict.fromkeys([*ends.tokens, *ends.added_tokens_with_text()]))
    values = {
        **own.to_dict(),
        "eos_token_id": tokens if len(tokens) > 1 else tokens[0],
        "pad_token_id": ends.tokenizer.pad_token_id,
    }
    kept = {name: value for name, value in values.items() if value is not None}
    (place / GENERATION_CONFIG_NAME).write_text(
        GenerationConfig.from_dict(kept).to_json_string(), encoding="utf-8", newline="\n"
    )


def _copy(folder: Path, name: str, place: Path) -> None:
    with open_to_read(folder, f"{FINAL}/{name}") as source, (place / name).open("wb") as copy:
        shutil.copyfileobj(source, copy)
