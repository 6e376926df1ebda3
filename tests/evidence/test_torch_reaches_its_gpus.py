"""STK016: a torch for the CPU sees no GPU, whatever the machine has, and its version.py says so without an import."""

import pytest

from grpo_recipes.stack.probe import torch_cuda

pytestmark = pytest.mark.stack


def test_what_the_file_says_is_what_torch_says() -> None:
    import torch

    assert torch_cuda() == (torch.version.cuda or "")


def test_a_torch_for_the_cpu_raises_for_a_gpu() -> None:
    import torch

    if torch.version.cuda is not None:
        pytest.skip("this torch is built for CUDA")
    assert not torch.cuda.is_available()
    with pytest.raises(AssertionError, match="Torch not compiled with CUDA enabled"):
        torch.zeros(1, device="cuda")
