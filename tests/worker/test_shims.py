"""Each shim against the defect that it cures, on the real library."""

import copy
import subprocess
import sys
from pathlib import Path
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


def test_a_model_without_nf4_layers_is_left_alone() -> None:
    import torch

    from grpo_recipes.worker.shims import bnb_cpu_packing

    assert bnb_cpu_packing.keep_unpacked(torch.nn.Sequential(torch.nn.Linear(2, 2))) == 0


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
