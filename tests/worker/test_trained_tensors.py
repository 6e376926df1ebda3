"""The fingerprints of trained tensors: another for another content, and no copy of a large one."""

import re
from pathlib import Path

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

    from grpo_recipes.worker.trainer.trained_tensors import INTEGERS, fingerprints

    model = torch.nn.Module()
    model.weight = torch.nn.Parameter(torch.randn(shape).to(getattr(torch, dtype)))
    bits = model.weight.detach().view(-1).view(INTEGERS[model.weight.element_size()])
    assert fingerprints(model) == {"weight": int(bits.sum(dtype=torch.int64))}


def test_a_large_tensor_is_not_copied() -> None:
    import torch

    from grpo_recipes.worker.trainer.trained_tensors import fingerprints

    model = torch.nn.Module()
    model.weight = torch.nn.Parameter(torch.zeros(NUMBERS) + 1)
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pytest.skip("this kernel does not forget the peak of a process")
    before = resident_mib("VmRSS")
    fingerprints(model)
    assert resident_mib("VmHWM") - before < 8 * NUMBERS / 4 / 2**20
