"""What is drawn depends on the recipe's seed, the step and the rank, and on nothing that was drawn before."""

from pathlib import Path
from typing import Any

import pytest
from worker_runs import LORA

pytestmark = pytest.mark.stack


def test_each_step_of_each_rank_has_a_seed_of_its_own() -> None:
    from grpo_recipes.worker.model.seeds import seed_of_step

    seeds = {seed_of_step(seed, step, rank) for seed in range(5) for step in range(50) for rank in range(4)}
    assert len(seeds) == 1000
    assert seed_of_step(42, 0, 0) == 742273224, "format 1 of the recipe promises these numbers"


@pytest.mark.parametrize("is_alone", [True, False], ids=["the CPU alone", "beside other devices"])
def test_each_step_begins_with_the_generators_as_transformers_seeds_them(is_alone: bool) -> None:
    import random
    from types import SimpleNamespace

    import numpy
    import torch
    from transformers import set_seed

    from grpo_recipes.worker.model.seeds import SeedEachStep, seed_of_step

    def drawn() -> list[float]:
        return [random.random(), float(numpy.random.rand()), *torch.rand(3).tolist(), *torch.randn(3).tolist()]

    set_seed(seed_of_step(42, 3, 1))
    expected = drawn()
    set_seed(0)
    callback = SeedEachStep(42, 1)
    callback._is_alone = is_alone
    callback.on_step_begin(None, SimpleNamespace(global_step=3), None)
    assert drawn() == expected


def initial_weights(model: Path, drawn_before: int) -> dict[str, Any]:
    """The adapter of a new PeftModel, after so many draws."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.rand(drawn_before)
    adapted = get_peft_model(AutoModelForCausalLM.from_pretrained(model), LoraConfig(**LORA))
    return {name: weight.tolist() for name, weight in adapted.named_parameters() if "lora_A" in name}


def test_the_adapter_is_drawn_from_the_seed_whatever_was_drawn_before(tiny_model: Path) -> None:
    from grpo_recipes.worker.model.seeds import seeded_adapter

    assert initial_weights(tiny_model, 1) != initial_weights(tiny_model, 2)
    with seeded_adapter(7):
        first, second = initial_weights(tiny_model, 1), initial_weights(tiny_model, 2)
    assert first == second
    with seeded_adapter(8):
        assert initial_weights(tiny_model, 1) != first
    assert initial_weights(tiny_model, 1) != initial_weights(tiny_model, 2)
