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
        pytest.param({"hidden_size": 10**4000}, id="a size that no float can hold"),
        pytest.param({"tie_word_embeddings": "yes"}, id="tied or not"),
        pytest.param({"model_type": "qwen3_moe"}, id="no experts"),
        pytest.param({"model_type": "gemma3_text", "use_bidirectional_attention": True}, id="attention both ways"),
        pytest.param({"model_type": "gemma3_text", "final_logit_softcapping": 30.0}, id="logits with a cap"),
        pytest.param({"model_type": "phi3", "resid_pdrop": 0.1}, id="dropout in the layers"),
        pytest.param(QWEN3_30B_A3B | {"mlp_only_layers": [0]}, id="layers of two kinds"),
    ],
)
def test_what_is_not_covered_is_unknown(change: dict[str, object]) -> None:
    covered = read_model_config("Qwen/Qwen2.5-0.5B-Instruct")
    assert covered is not None and read_architecture(covered) is not None
    assert read_architecture(covered | change) is None


@pytest.mark.parametrize(
    ("change", "tokens"),
    [
        pytest.param({}, 22 * 512 + 4 * 2048, id="every sixth layer sees everything"),
        pytest.param({"sliding_window_pattern": 2}, 13 * 512 + 13 * 2048, id="every second layer"),
        pytest.param({"layer_types": ["full_attention"] * 26}, 26 * 2048, id="all layers"),
        pytest.param({"sliding_window": 4096}, 26 * 2048, id="a window that is longer"),
    ],
)
def test_a_layer_with_a_window_holds_no_more_than_that(change: dict[str, object], tokens: int) -> None:
    gemma = read_model_config("google/gemma-3-1b-it")
    assert gemma is not None
    architecture = read_architecture(gemma | change)
    assert architecture is not None
    assert architecture.tokens_in_cache(2048) == tokens
    assert architecture.tokens_in_cache(2048, at_once=2048) == 26 * 2048


def test_heads_are_turned_as_far_as_the_config_says() -> None:
    phi = read_model_config("microsoft/Phi-4-mini-instruct")
    assert phi is not None
    shares = []
    for change in ({}, {"rope_parameters": {"partial_rotary_factor": 0.5}}, {"partial_rotary_factor": None}):
        architecture = read_architecture({**phi, **change})
        assert architecture is not None
        shares.append(architecture.style.rotated)
    assert shares == [0.75, 0.5, 1.0]
