"""Sizes are read from a config.json, and what is not covered is unknown."""

import pytest

from grpo_recipes.facts.released.shipped import table
from grpo_recipes.user_files.architecture import read_architecture
from grpo_recipes.user_files.model_config import parameter_count, read_model_config

QWEN3_30B_A3B = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "vocab_size": 151936,
    "tie_word_embeddings": False,
}


@pytest.mark.parametrize("model", sorted(table("models")["models"]))
def test_a_well_known_model_has_the_parameters_that_are_counted_elsewhere(model: str) -> None:
    config = read_model_config(model)
    assert config is not None
    architecture = read_architecture(config)
    assert (None if architecture is None else architecture.parameters()) == parameter_count(config)


def test_a_mixture_of_experts_has_the_parameters_of_its_card() -> None:
    architecture = read_architecture(QWEN3_30B_A3B)
    assert architecture is not None
    assert architecture.parameters() == 30_532_122_624


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"model_type": "gemma2"}, id="another family"),
        pytest.param({"model_type": None}, id="no family"),
        pytest.param({"hidden_size": "large"}, id="a size that is no number"),
        pytest.param({"tie_word_embeddings": "yes"}, id="tied or not"),
        pytest.param({"model_type": "qwen3_moe"}, id="no experts"),
        pytest.param(QWEN3_30B_A3B | {"mlp_only_layers": [0]}, id="layers of two kinds"),
    ],
)
def test_what_is_not_covered_is_unknown(change: dict[str, object]) -> None:
    covered = read_model_config("Qwen/Qwen2.5-0.5B-Instruct")
    assert covered is not None and read_architecture(covered) is not None
    assert read_architecture(covered | change) is None
