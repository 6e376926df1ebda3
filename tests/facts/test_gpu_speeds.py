"""The table of datasheets names known GPUs, each with its source."""

import json

import pytest

from grpo_recipes.facts.gpu_speeds import TABLE, gpu_speed
from grpo_recipes.facts.released.shipped import table
from grpo_recipes.stack.gpus import named_gpu

GPUS = table(TABLE)["gpus"]


def test_a_gpu_that_is_not_in_the_table_has_no_speed() -> None:
    assert gpu_speed("NOBODYS-GPU") is None


def test_figures_are_operations_and_bytes_of_a_second() -> None:
    found = gpu_speed("H100-80GB")
    assert found is not None
    assert found.flops_16 == (756e12, 989e12)
    assert found.bandwidth == (2000e9, 3350e9)


@pytest.mark.parametrize("name", GPUS)
def test_a_row_is_of_a_known_gpu_and_has_its_source(name: str) -> None:
    assert named_gpu(name).name == name
    assert named_gpu(name).capability is not None, name
    assert set(GPUS[name]) == {"tflops_16", "tflops_32", "gb_per_s", "source"}
    assert GPUS[name]["source"].startswith("https://")
    for key in ("tflops_16", "tflops_32", "gb_per_s"):
        low, high = GPUS[name][key]
        assert 0 < low <= high <= 2 * low, json.dumps(GPUS[name])
    assert GPUS[name]["tflops_16"][0] > GPUS[name]["tflops_32"][0]
