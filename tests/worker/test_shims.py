"""Shims for defects of the newest libraries, with and without each, and what shims of prompts refuse."""

import copy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from worker_runs import NF4, environment

pytestmark = pytest.mark.stack


def gradient_after_evaluation(layer: Any, inputs: Any) -> Any:
    """The gradient through a Linear4bit, with the way around it that models have, after an evaluation."""
    import torch

    layer.eval()
    with torch.no_grad():
        layer(inputs)
    return gradient(layer, inputs)


def gradient(layer: Any, inputs: Any) -> Any:
    layer.train()
    inputs = inputs.clone().requires_grad_()
    (0.1 * inputs + layer(inputs)).square().sum().backward()
    return inputs.grad.flatten()


def test_evaluation_does_not_change_the_gradients_of_nf4_layers() -> None:
    import bitsandbytes as bnb
    import torch

    from grpo_recipes.worker.shims import bnb_cpu_packing

    torch.manual_seed(0)
    layer = bnb.nn.Linear4bit(64, 64, bias=False, compute_dtype=torch.float32, quant_type="nf4").to("cpu")
    inputs = torch.randn(4, 64)
    shimmed = torch.nn.Sequential(copy.deepcopy(layer))
    assert bnb_cpu_packing.keep_unpacked(shimmed) == 1
    wanted = gradient(copy.deepcopy(layer), inputs)

    cured = gradient_after_evaluation(shimmed[0], inputs)
    assert torch.cosine_similarity(cured, wanted, dim=0) > 0.9999

    if not layer.support_avx512bf16_for_cpu:
        pytest.skip("this processor has no avx512_bf16, so bitsandbytes does not pack")
    wrong = gradient_after_evaluation(layer, inputs)
    assert torch.cosine_similarity(wrong, wanted, dim=0) < 0.99, "the defect is gone: remove the shim"


def test_every_nf4_layer_of_a_loaded_model_is_reached(tiny_model: Path) -> None:
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    from grpo_recipes.worker.shims import bnb_cpu_packing

    model = AutoModelForCausalLM.from_pretrained(tiny_model, quantization_config=BitsAndBytesConfig(**NF4))
    assert bnb_cpu_packing.keep_unpacked(model) == 14


def test_deepspeed_does_not_build_its_shared_memory_op(tmp_path: Path) -> None:
    code = (
        "import deepspeed, importlib\n"
        "comm = importlib.import_module('deepspeed.comm.torch')\n"
        "print('built unasked:', deepspeed.ops.__compatible_ops__['deepspeed_shm_comm'])\n"
        "from grpo_recipes.worker.shims import deepspeed_shm\n"
        "deepspeed_shm.before_trainer(True, None)\n"
        "print('built with the shim:', comm.build_shm_op())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(TORCH_EXTENSIONS_DIR=str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert "built unasked: True" in done.stdout, done.stdout + done.stderr
    assert "built with the shim: None" in done.stdout
    assert list(tmp_path.iterdir()) == []


def test_a_prompt_that_the_assistant_has_begun_is_refused() -> None:
    from grpo_recipes.worker._shared.replacing import Refused
    from grpo_recipes.worker.shims import prompt_tokens

    plan: Any = None
    prompts = [[{"role": "user", "content": "1+2="}], [{"role": "assistant", "content": "3"}]]
    trainer = SimpleNamespace(train_dataset={"prompt": prompts[:1]})
    assert prompt_tokens.on_trainer(trainer, True, plan) == ""
    trainer.train_dataset = {"prompt": prompts}
    with pytest.raises(Refused, match="the prompt of row 2 ends with an assistant message"):
        prompt_tokens.on_trainer(trainer, True, plan)


def test_a_prompt_with_fields_of_a_processor_is_not_cut() -> None:
    from grpo_recipes.worker._shared.replacing import Refused
    from grpo_recipes.worker.shims import max_prompt_length

    def tokenize(prompts: Any) -> Any:
        return [[1, 2, 3]], None, {"pixel_values": [[0.0]]}

    cut = max_prompt_length._Cut(None, 2)
    with pytest.raises(Refused, match="pixel_values would not match"):
        max_prompt_length._tokenize_and_cut(cut, tokenize, ["a prompt with an image"])
