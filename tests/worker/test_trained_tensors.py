"""The fingerprints of trained tensors: another for another content, and no copy of a large one."""

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

pytestmark = pytest.mark.stack

NUMBERS = 50_000_000


def resident_mib(name: str) -> int:
    """VmRSS or VmHWM of this process."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) // 1024


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("shape", [(3,), (0,), (2500, 3001)], ids=str)
def test_a_fingerprint_is_the_sum_of_the_bits(dtype: str, shape: tuple[int, ...]) -> None:
    import torch

    from grpo_recipes.worker.model.trained_tensors import INTEGERS, fingerprints

    model = torch.nn.Module()
    model.weight = torch.nn.Parameter(torch.randn(shape).to(getattr(torch, dtype)))
    bits = model.weight.detach().view(-1).view(INTEGERS[model.weight.element_size()])
    assert fingerprints(model) == {"weight": int(bits.sum(dtype=torch.int64))}


def test_a_large_tensor_is_not_copied() -> None:
    import torch

    from grpo_recipes.worker.model.trained_tensors import fingerprints

    model = torch.nn.Module()
    model.weight = torch.nn.Parameter(torch.zeros(NUMBERS) + 1)
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pytest.skip("this kernel does not forget the peak of a process")
    before = resident_mib("VmRSS")
    fingerprints(model)
    assert resident_mib("VmHWM") - before < 8 * NUMBERS / 4 / 2**20


def test_a_bias_that_bitsandbytes_casts_is_no_weight_in_another_dtype() -> None:
    import torch
    from bitsandbytes.nn import Linear4bit

    from grpo_recipes.worker.model.trained_tensors import weight_dtypes

    packed = Linear4bit(64, 64, compute_dtype=torch.bfloat16).to("cpu")
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), packed)
    model(torch.ones(1, 64))
    assert packed.bias.dtype == torch.bfloat16
    trainer = SimpleNamespace(args=SimpleNamespace())
    assert weight_dtypes(trainer, model) == ("float32",)
    model[0].bias.data = model[0].bias.data.bfloat16()
    assert weight_dtypes(trainer, model) == ("bfloat16", "float32")
