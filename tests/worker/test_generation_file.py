"""The model's generation_config.json is set aside while the model trains, and lies beside it again when it is saved."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.stack

# A temperature without sampling: transformers reads it, and up to version 4 refuses to write it.
SAYS = {"do_sample": False, "temperature": 0.1, "no_repeat_ngram_size": 2, "eos_token_id": [2, 5], "pad_token_id": 0}


@pytest.fixture
def model(tiny_model: Path, tmp_path: Path) -> Any:
    """A model whose generation_config.json says how to sample."""
    from transformers import AutoModelForCausalLM

    folder = shutil.copytree(tiny_model, tmp_path / "model")
    (folder / "generation_config.json").write_text(json.dumps(SAYS))
    return AutoModelForCausalLM.from_pretrained(folder)


def trainer_of(model: Any) -> Any:
    """What is looked at of a trainer."""
    return SimpleNamespace(model=model, accelerator=SimpleNamespace(unwrap_model=lambda wrapped: wrapped))


def test_what_ends_a_completion_stays_and_how_to_sample_does_not(model: Any) -> None:
    from grpo_recipes.worker.model.generation_file import set_aside

    ignored = set_aside(trainer_of(model))

    assert ignored == {name: SAYS[name] for name in ("do_sample", "temperature", "no_repeat_ngram_size")}
    left = model.generation_config
    assert (left.eos_token_id, left.pad_token_id, left.temperature) == ([2, 5], 0, None)
    assert set_aside(trainer_of(model)) == {}


def test_a_saved_model_has_the_file_that_it_came_with(model: Any, tmp_path: Path) -> None:
    from grpo_recipes.worker.model.generation_file import set_aside

    set_aside(trainer_of(model))
    model.save_pretrained(tmp_path / "saved")
    saved = json.loads((tmp_path / "saved" / "generation_config.json").read_text())
    assert {name: saved[name] for name in SAYS} == SAYS


def test_the_model_inside_an_adapter_is_the_one_that_is_asked(model: Any, tmp_path: Path) -> None:
    from peft import LoraConfig, get_peft_model

    from grpo_recipes.worker.model.generation_file import set_aside

    adapted = get_peft_model(model, LoraConfig(target_modules="all-linear"))
    assert "temperature" in set_aside(trainer_of(adapted))
    assert adapted.generation_config.temperature is None
    adapted.merge_and_unload().save_pretrained(tmp_path / "merged")
    assert json.loads((tmp_path / "merged" / "generation_config.json").read_text())["temperature"] == 0.1
