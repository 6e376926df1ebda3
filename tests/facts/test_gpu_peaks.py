"""The table of datasheets names GPUs with tensor cores for bfloat16, each with its source."""

import pytest

from grpo_recipes.facts.released.shipped import table
from grpo_recipes.rules.products_use_tensor_cores import TENSOR_CORES_FOR_BFLOAT16
from grpo_recipes.stack.gpus import gpu_by_name

GPUS = table("gpu_peaks")["gpus"]


@pytest.mark.parametrize("name", GPUS)
def test_a_row_is_of_a_known_gpu_and_has_its_source(name: str) -> None:
    gpu, peaks = gpu_by_name(name), GPUS[name]
    assert gpu.name == name
    assert gpu.capability is not None and gpu.capability >= TENSOR_CORES_FOR_BFLOAT16
    assert set(peaks) == {"tflops_16", "tflops_32", "source"}
    assert peaks["source"].startswith("https://")
    assert 0 < peaks["tflops_32"] < peaks["tflops_16"]
