"""Trains the image rows of TRL's GRPOTrainer tests from recipes, and asserts what TRL asserts.

Source: trl, tests/test_grpo_trainer.py of July 2026, TestGRPOTrainerVLM and two of TestGRPOTrainerSlow. The models are
made here, as tiny as TRL's. 14 of the 20 rows train. Six are refused for Liger's loss, vLLM or a tool; one of these
trains nothing in TRL either, which only builds a trainer from a text model and a different model's processor.
"""

import json
import math
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from support.seeing_models import NEEDS_TORCHVISION, write_seeing_model, write_squares
from test_training_on_images import commands
from worker_runs import events, record

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("warm")]
LONGER = '''
def longer(completions, **kwargs):
    return [float(len(completion[0]["content"])) for completion in completions]


def by_hash(completions, **kwargs):
    return [float(sum(map(ord, completion[0]["content"])) % 100) for completion in completions]


def screenshot() -> list:
    """Takes a screenshot and returns it."""
    from PIL import Image

    return [{"type": "image", "image": Image.new("RGB", (64, 64))}, {"type": "text", "text": "Here it is."}]
'''
QWEN = "qwen2_5_vl"
TWO_PROJECTIONS: dict[str, Any] = {"lora": {"target_modules": ["q_proj", "v_proj"]}}
VLLM: dict[str, Any] = {"generation": {"use_vllm": True}}
OF_SMOLVLM: dict[str, Any] = {
    "lora": {"r": 4, "lora_alpha": 8, "lora_dropout": 0.1, "target_modules": ["q_proj", "v_proj"]},
    "model": {"dtype": "bfloat16"},
    "quantization": {"load_in_4bit": True, "bnb_4bit_use_double_quant": True, "bnb_4bit_compute_dtype": "bfloat16"},
    "rewards": [{"python": "mine.py:by_hash"}],
}
STILL = ("post_layernorm", "layer_scalar")
"""Unchanged weights: a norm of LLaVA's tower that the loss does not use, as TRL asserts, and a Gemma 4 buffer."""
# Each row: its test in TRL with the model, the family of the model, and additions to the common recipe.
TRAINED: dict[str, tuple[str, dict[str, Any]]] = {
    **{
        f"test_train_vlm-{family}": (family, {})
        for family in ("gemma3", "gemma4", "llava_next", QWEN, "qwen2_vl", "qwen3_5", "qwen3_5_moe")
    },
    "test_train_vlm_with_pad_to_multiple_of": ("gemma3", {"trl": {"pad_to_multiple_of": 7}}),
    "test_train_vlm_beta_non_zero": (QWEN, {"grpo": {"beta": 0.1}}),
    "test_train_vlm_peft": (QWEN, TWO_PROJECTIONS),
    "test_train_vlm_and_importance_sampling": (QWEN, {"grpo": {"optimizer_steps_per_generation": 2}}),
    "test_train_vlm_multi_image": (QWEN, {}),
    "test_train_vlm_log_multimodal_false": ("gemma3", {"logging": {"log_completions": True}}),
    "test_vlm_training": ("smolvlm", OF_SMOLVLM),
}
QUICK = ("test_train_vlm_log_multimodal_false",)
REFUSED: dict[str, tuple[str, dict[str, Any], str]] = {
    "test_train_vlm_and_liger": (QWEN, {"trl": {"use_liger_kernel": True}}, "use_liger_kernel"),
    # Two more rows train with vLLM, in tests/with_vllm/test_images.py: Qwen2.5-VL, and SmolVLM with LoRA.
    **{
        f"test_train_vlm_and_vllm-{family}": (family, VLLM, f"use_vllm and {family}") for family in ("gemma3", "gemma4")
    },
    "test_train_with_tools_multimodal_response": ("qwen3_5", {"tools": [{"python": "mine.py:screenshot"}]}, "tools"),
}


def _rows(named: dict[str, Any]) -> list[Any]:
    """The rows as parameters; skips one whose model cannot be made here."""
    has_torchvision = find_spec("torchvision") is not None
    lacking = {name: row[0] in NEEDS_TORCHVISION and not has_torchvision for name, row in named.items()}
    skipped = {name: pytest.mark.skipif(lacking[name], reason="its processor needs torchvision") for name in named}
    long = {name: [pytest.mark.long] if named is TRAINED and name not in QUICK else [] for name in named}
    return [pytest.param(*row, id=name, marks=[skipped[name], *long[name]]) for name, row in named.items()]


@pytest.fixture
def recipe(tmp_path: Path) -> Callable[..., Path]:
    """The folder of a recipe with the common settings of TRL's tests and the changes of a row."""

    def written(family: str, changes: dict[str, Any], *, images: int = 1) -> Path:
        write_seeing_model(tmp_path / "model", family)
        rows = write_squares(tmp_path, 6, per_row=images)
        (tmp_path / "mine.py").write_text(LONGER)
        if images > 1:  # as in TRL's rows, some of which have one image and others two
            kept = [json.loads(line) for line in rows.read_text().splitlines()]
            for row in kept[::2]:
                row["picture"] = row["picture"][:1]
            rows.write_text("".join(json.dumps(row) + "\n" for row in kept))
        of_all: dict[str, Any] = {
            "recipe": 1,
            "name": "row",
            "model": {"model_name_or_path": "./model", "dtype": "float32"},
            "dataset": {"path": "./squares.jsonl", "images": "picture", "prompt": "{{ question }}"},
            "rewards": [{"python": "mine.py:longer"}],
            "training": {"prompts_per_step": 1, "max_steps": 4, "learning_rate": 0.1, "save_steps": 1},
            "grpo": {"num_generations": 2},
            "generation": {"max_completion_length": 8},
        }
        for section, values in changes.items():
            of_all[section] = {**of_all.get(section, {}), **values} if isinstance(values, dict) else values
        (tmp_path / "recipe.yaml").write_text(json.dumps(of_all))
        return tmp_path

    return written


@pytest.mark.parametrize(("family", "changes"), _rows(TRAINED))
def test_a_row_of_trl_trains(
    family: str, changes: dict[str, Any], recipe: Callable[..., Path], request: pytest.FixtureRequest
) -> None:
    folder = recipe(family, changes, images=2 if "multi_image" in request.node.name else 1)

    commands(folder, "recipe.yaml", "--out", "run", "--allow-code", "here")

    run = folder / "run"
    assert record(run)["status"] == "completed"
    assert all(math.isfinite(step["loss"]) for step in events(run, "step"))
    if "lora" in changes:
        name, first = "adapter_model.safetensors", run / "checkpoints" / "checkpoint-1"
    else:
        name, first = "model.safetensors", folder / "model"
    before, after = load_file(first / name), load_file(run / "final" / name)
    assert after and before.keys() == after.keys()
    same = [tensor for tensor in before if before[tensor].equal(after[tensor])]
    assert not [tensor for tensor in same if not any(name in tensor for name in STILL)], "every trained tensor changed"


@pytest.mark.parametrize(("family", "changes", "named"), _rows(REFUSED))
def test_a_row_of_trl_is_refused(family: str, changes: dict[str, Any], named: str, recipe: Callable[..., Path]) -> None:
    said = commands(recipe(family, changes), "validate", "recipe.yaml", code=2)

    assert f"dataset.images cannot be combined with {named} [DAT005]" in said
