"""Loads a folder's adapter, perhaps a stranger's, within limits."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel

from grpo_recipes.contract.files.bounded_json import read_json
from grpo_recipes.worker._shared.replacing import Refused

CONFIG = "adapter_config.json"
_MOST = {"iterations": 100, "layers": 1000, "ranks": 1 << 14}
"""Far beyond what adapters use. PEFT iterates, copies layers and draws weights as often as the file says."""


def with_adapter(base: Any, folder: Path, **how: Any) -> Any:
    """Returns a model with a folder's adapter. how: keywords for PEFT. Raises Refused if it cannot be loaded."""
    try:
        if folder.is_dir():
            config = read_json(folder, CONFIG)
            if not isinstance(config, dict):
                raise ValueError(f"{CONFIG} is not a mapping")
            refuse_costly_adapter(config, f"{folder / CONFIG}: ")
        return PeftModel.from_pretrained(base, str(folder), **how)
    except torch.OutOfMemoryError:
        raise
    except (AttributeError, KeyError, OSError, RuntimeError, TypeError, ValueError) as problem:
        raise Refused.of(
            f"the adapter in {folder} cannot be loaded",
            because=" ".join(f"{type(problem).__name__}: {problem}".split())[:300],
            fix=f"restore the folder from a copy; its {CONFIG} and its weights belong together",
        ) from problem


def refuse_costly_adapter(config: Mapping[str, Any], where: str) -> None:
    """Raises Refused if PEFT would compute for hours, or fill the memory, before it loads a weight.

    config: the values of a LoraConfig. where: its file for messages, or "".
    """
    rounds = [(config.get("loftq_config") or {}).get("loftq_iter")]
    rounds += map(int, re.findall(r"_niter_(\d{1,20})\Z", str(config.get("init_lora_weights"))))
    ranks = [config.get("r"), *(config.get("rank_pattern") or {}).values()]
    asked = {
        ("init_lora_weights", "iterations"): max(filter(None, rounds), default=0),
        ("layer_replication", "layers"): sum(end - start for start, end in config.get("layer_replication") or ()),
        ("r", "ranks"): max(filter(None, ranks), default=0),
    }
    for (key, unit), count in asked.items():
        if count > _MOST[unit]:
            raise Refused.of(
                f"{where}{key} asks for {count:,} {unit}",
                because=f"the most is {_MOST[unit]:,}; PEFT would compute for hours, or need all memory",
                fix="an adapter from somebody you trust",
            )
