"""PRE002 and PRE003: what precisions do to weights, gradients and 4-bit products."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from deepspeed_answers import answers, step
from library import Library

pytestmark = pytest.mark.stack

MODEL = Path(__file__).parents[2] / "recipes" / "quickstart" / "model"
BF16, FP16 = {"enabled": True}, {"enabled": True}
AUTOCAST = {"bf16": {}, "torch_autocast": {"enabled": True, "dtype": "bfloat16"}}
ZERO2, ZERO3 = {"stage": 2}, {"stage": 3}
Answers = dict[str, dict[str, Any]]


def _loaded(dtype: str, **config: Any) -> dict[str, Any]:
    return {"call": "loaded_dtype", "arguments": {"config": config, "model": str(MODEL), "dtype": dtype}}


@pytest.fixture(scope="module")
def found(library: Library, tmp_path_factory: pytest.TempPathFactory) -> Answers:
    """What DeepSpeed makes of all cases of this file."""
    cases = {
        "plain": step(zero_optimization=ZERO2),
        "bf16": step(zero_optimization=ZERO2, bf16=BF16),
        "fp16": step(zero_optimization=ZERO2, fp16=FP16),
        "autocast": step(zero_optimization=ZERO2, **AUTOCAST),
        "autocast, stage 3": step(zero_optimization=ZERO3, **AUTOCAST),
        "half loaded without": _loaded("bfloat16", zero_optimization=ZERO3),
        "whole loaded with": _loaded("float32", zero_optimization=ZERO3, bf16=BF16),
        "half loaded with": _loaded("bfloat16", zero_optimization=ZERO3, bf16=BF16),
    }
    return answers(cases, library, tmp_path_factory.mktemp("precision"))


@pytest.mark.parametrize(("case", "dtype"), [("plain", "float32"), ("bf16", "bfloat16"), ("fp16", "float16")])
def test_deepspeeds_own_precisions_cast_every_weight(case: str, dtype: str, found: Answers) -> None:
    if "not supported on your device" in found[case]["text"]:
        pytest.skip("DeepSpeed takes fp16 only on a processor with avx512_fp16, or a GPU")
    assert found[case]["result"]["dtype"] == f"torch.{dtype}"


@pytest.mark.parametrize("case", ["autocast", "autocast, stage 3"])
def test_torchs_autocast_computes_in_bfloat16_and_keeps_float32(case: str, found: Answers) -> None:
    kept, plain, half = (found[name]["result"] for name in (case, "plain", "bf16"))
    assert kept["dtype"] == "torch.float32"
    assert kept["loss"] == half["loss"] != plain["loss"]


def test_zero3_loads_every_model_in_its_own_precision(found: Answers) -> None:
    assert found["half loaded with"]["result"] == "{torch.bfloat16}"
    assert found["half loaded without"]["result"] == "{torch.float32}"
    assert found["whole loaded with"]["result"] == "{torch.bfloat16}"


STEPS = """
import json, sys, torch
moved = {}
for name in ("float32", "bfloat16", "float16"):
    torch.manual_seed(0)
    start = (torch.randn(10000) * 0.02).to(getattr(torch, name))
    for fused in (True, False):
        weights = torch.nn.Parameter(start.clone())
        optimizer = torch.optim.AdamW([weights], lr=1e-6, weight_decay=0.0, fused=fused)
        gradient = (torch.randn(10000) * 1e-3).to(weights.dtype)
        for _ in range(100):
            weights.grad = gradient.clone()
            optimizer.step()
        way = (weights.detach().double() - start.double()).abs()
        share = float((way > 0).double().mean())
        moved[name + ("" if fused else " unfused")] = [share, float(way.mean()) / 100e-6]
print(json.dumps(moved))
"""
SCALING = """
import torch
weights = torch.nn.Parameter(torch.ones(4, dtype=torch.float16))
scaler, optimizer = torch.amp.GradScaler("cpu"), torch.optim.SGD([weights], lr=0.1)
scaler.scale(weights.float().sum()).backward()
scaler.unscale_(optimizer)
"""
PRODUCT = """
import bitsandbytes, json, torch
torch.manual_seed(0)
values, inputs = torch.randn(64, 64), torch.randn(8, 64)
def product(compute, autocast):
    layer = bitsandbytes.nn.Linear4bit(64, 64, bias=False, compute_dtype=compute, quant_type="nf4")
    layer.load_state_dict({"weight": values})
    layer = layer.to("cpu")
    layer.support_avx512bf16_for_cpu = False
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        return layer(inputs.clone().requires_grad_())
whole, half = product(torch.float32, False), product(torch.bfloat16, False)
with_whole, with_half = product(torch.float32, True), product(torch.bfloat16, True)
print(json.dumps([bool(with_whole.equal(with_half)), bool(with_whole.equal(whole)), bool(half.equal(whole))]))
"""


def _python(program: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def moved() -> dict[str, list[float]]:
    """For each dtype: the share of the weights that a hundred steps moved, and how far against float32."""
    measured: dict[str, list[float]] = json.loads(_python(STEPS).stdout)
    return measured


def test_bfloat16_weights_lose_most_small_steps_and_float32_weights_none(moved: dict[str, list[float]]) -> None:
    assert moved["float32"][0] == 1.0
    assert moved["float32"][1] == pytest.approx(1, rel=1e-2)
    assert moved["bfloat16"][0] < 0.05
    assert moved["bfloat16 unfused"][0] < 0.05


def test_float16_weights_move_wrongly_without_a_float32_copy(moved: dict[str, list[float]]) -> None:
    assert moved["float16"][1] > 2
    assert moved["float16 unfused"][1] != pytest.approx(1, rel=0.5)


def test_loss_scaling_cannot_be_undone_on_float16_gradients() -> None:
    done = _python(SCALING)
    assert done.returncode == 1
    assert "ValueError: Attempting to unscale FP16 gradients." in done.stderr


def test_autocast_decides_what_a_4_bit_product_is_computed_in() -> None:
    same_under_autocast, as_without, same_without = json.loads(_python(PRODUCT).stdout.splitlines()[-1])
    assert same_under_autocast
    assert not as_without
    assert not same_without
