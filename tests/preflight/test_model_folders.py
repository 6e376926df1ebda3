"""Model folders that lack files: what preflight says, and that transformers cannot load them."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from preflight_runs import QUICKSTART, Answer

from grpo_recipes.worker.preflight.checks import model_folder_is_complete

pytestmark = pytest.mark.stack

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:ab\nsize 123\n"
INDEX = {"metadata": {}, "weight_map": {"a": "model-1.safetensors", "b": "model-2.safetensors"}}
SHARD = {"model.safetensors": None, "model-1.safetensors": ""}


def _spoil(folder: Path, files: dict[str, str | None]) -> Path:
    """A copy of the quickstart's model with these texts; None removes a file."""
    shutil.copytree(QUICKSTART.parent / "quickstart" / "model", folder)
    for name, text in files.items():
        (folder / name).unlink() if text is None else (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({}, None),
        ({"pytorch_model.bin": POINTER, "README.md": POINTER}, None),
        ({"model.safetensors": None}, " has no weights"),
        ({"model.safetensors": POINTER}, " has pointers instead of files"),
        ({"tokenizer.json": POINTER}, " has pointers instead of files"),
        ({"model.safetensors.index.json": json.dumps(INDEX)}, None),
        ({"model.safetensors.index.json": "{"}, None),
        (SHARD | {"model.safetensors.index.json": json.dumps(INDEX)}, " lacks 1 of 2 files of weights"),
        (SHARD | {"model.safetensors.index.json": "{"}, ": model.safetensors.index.json names no files of weights"),
    ],
)
def test_transformers_cannot_load_a_folder_that_is_named(
    files: dict[str, str | None], message: str | None, tmp_path: Path
) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = _spoil(tmp_path / "model", files)
    seen: Any = SimpleNamespace(plan=SimpleNamespace(model=SimpleNamespace(path=str(folder))), tokenizer=None)
    said = [fault.message for fault in model_folder_is_complete.check(seen)]
    assert said == ([f"{folder}{message}"] if message else [])
    if message:
        with pytest.raises(Exception, match=r"."):
            AutoModelForCausalLM.from_pretrained(folder, tokenizer=AutoTokenizer.from_pretrained(folder))
    elif "model.safetensors.index.json" in files:
        AutoModelForCausalLM.from_pretrained(folder)


def test_a_folder_without_a_tokenizer_is_named(preflight: Callable[..., Answer], tmp_path: Path) -> None:
    """transformers makes an empty tokenizer, and plain prompts have no tokens."""
    _spoil(tmp_path / "model", {"tokenizer.json": None, "tokenizer_config.json": None})
    recipe = {"model": {"model_name_or_path": "model"}, "dataset": {"prompt_format": "standard"}, "evaluation": None}
    (tmp_path / "recipe.yaml").write_text(json.dumps({"extends": str(QUICKSTART), **recipe}))
    answer = preflight("recipe.yaml", "--json")
    assert answer.code == 2
    message = f"the tokenizer of {tmp_path / 'model'} makes no tokens of a text"
    assert answer.said()["PFL069", "model.model_name_or_path"] == [message]
