"""Sizes are read from a config.json, and what is not covered is unknown."""

import pytest

from grpo_recipes.user_files.architecture import read_architecture
from grpo_recipes.user_files.model_config import read_model_config

QWEN3_30B_A3B = read_model_config("Qwen/Qwen3-30B-A3B") or {}


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
