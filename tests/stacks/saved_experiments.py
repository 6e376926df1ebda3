"""What a release of transformers makes of the files that transformers 5 saves with a model."""

import json
import shutil
from pathlib import Path

from raw_trl import model_folder


def loaded(folder: Path, *, tokenizer: dict[str, object]) -> list[int]:
    """The tokens of a text, by a tokenizer with these entries in its configuration."""
    from transformers import AutoTokenizer

    own = folder / "own"
    shutil.copytree(model_folder(folder), own)
    file = own / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | tokenizer))
    ids: list[int] = AutoTokenizer.from_pretrained(own)("2+3")["input_ids"]
    return ids


def positions(folder: Path, *, rope: dict[str, object]) -> object:
    """The base of the rotary positions of a model with these rope_parameters."""
    from transformers import AutoConfig

    (folder / "config.json").write_text(json.dumps({"model_type": "qwen2", "rope_parameters": rope}))
    return AutoConfig.from_pretrained(folder).rope_theta
