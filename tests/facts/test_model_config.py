"""Sizes are counted from config.json; what is not certain is unknown, never a guess."""

import json
from pathlib import Path

import pytest

from grpo_recipes.user_files.model_config import (
    lora_parameter_count,
    parameter_count,
    read_model_config,
    snapshot_in_cache,
)
from grpo_recipes.user_files.template import chat_template_of

# The published config.json of Qwen/Qwen2-0.5B-Instruct, whose model card says 0.49 billion parameters.
QWEN2_HALF_BILLION = {
    "model_type": "qwen2",
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
}
TINY = {
    "model_type": "llama",
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "vocab_size": 32,
}


def test_the_half_billion_model_has_as_many_parameters_as_published() -> None:
    assert parameter_count(QWEN2_HALF_BILLION) == 494_032_768


@pytest.mark.parametrize(
    ("target_modules", "expected"),
    [
        pytest.param("all-linear", 2 * 4 * (16 + 12 + 12 + 16 + 24 + 24 + 24), id="all-linear"),
        pytest.param(["q_proj", "v_proj"], 2 * 4 * (16 + 12), id="names"),
        pytest.param(["self_attn.q_proj"], 2 * 4 * 16, id="ending"),
        pytest.param(["layers.0.self_attn.q_proj"], 4 * 16, id="one-layer"),
        pytest.param(["q_proj", "lm_head"], 2 * 4 * 16 + 4 * 40, id="output-layer"),
        pytest.param(["q_proj", "missing"], 2 * 4 * 16, id="one-that-matches-nothing"),
        pytest.param(["proj"], None, id="part-of-a-name"),
        pytest.param([], None, id="nothing"),
        pytest.param(["embed_tokens"], None, id="embeddings"),
        pytest.param(".*q_proj", None, id="regular-expression"),
    ],
)
def test_an_adapter_has_r_times_inputs_plus_outputs(target_modules: str | list[str], expected: int | None) -> None:
    assert lora_parameter_count(TINY, 4, target_modules) == expected


def test_an_adapter_on_a_tied_output_layer_is_not_certain() -> None:
    tied = {**TINY, "tie_word_embeddings": True}
    assert lora_parameter_count(tied, 4, ["lm_head"]) is None
    assert lora_parameter_count(tied, 4, ["q_proj"]) == lora_parameter_count(TINY, 4, ["q_proj"])


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"model_type": "qwen2_moe"}, id="mixture-of-experts"),
        pytest.param({"model_type": None}, id="no-type"),
        pytest.param({"hidden_size": None}, id="no-size"),
        pytest.param({"hidden_size": "8"}, id="size-in-quotes"),
        pytest.param({"num_hidden_layers": -1}, id="negative"),
        pytest.param({"num_hidden_layers": 10**9}, id="too-many-layers"),
        pytest.param({"tie_word_embeddings": "yes"}, id="tied-in-words"),
    ],
)
def test_a_config_that_is_not_understood_has_no_count(changed: dict[str, object]) -> None:
    config = {**TINY, **changed}
    assert parameter_count(config) is None
    assert lora_parameter_count(config, 4, "all-linear") is None


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(json.dumps(TINY).encode(), TINY, id="config"),
        pytest.param(None, None, id="missing"),
        pytest.param(b"", None, id="empty"),
        pytest.param(b"[]", None, id="list"),
        pytest.param(b"\xff\x00", None, id="binary"),
        pytest.param(b"[" * 100_000, None, id="deep"),
        pytest.param(b'{"a": 1}' + b" " * 1_048_576, None, id="large"),
    ],
)
def test_only_a_readable_config_is_read(
    tmp_path: Path, content: bytes | None, expected: dict[str, object] | None
) -> None:
    if content is not None:
        (tmp_path / "config.json").write_bytes(content)
    assert read_model_config(str(tmp_path)) == expected


def test_a_hub_id_is_no_local_folder() -> None:
    assert read_model_config("no-such-owner/no-such-model") is None


@pytest.mark.parametrize("revision", ["/dev/zero", "../../../../../../../../dev/zero", "/"])
def test_a_revision_does_not_lead_out_of_the_cache(revision: str) -> None:
    assert snapshot_in_cache("owner/model", revision) is None


@pytest.mark.parametrize("model", ["a" * 300, "owner/" + "a" * 300, "./" + "b/" * 3000, "a\0b"], ids=len)
@pytest.mark.parametrize("revision", [None, "c" * 300])
def test_a_name_that_no_file_system_takes_has_no_config(model: str, revision: str | None) -> None:
    assert read_model_config(model, revision) is None
    assert snapshot_in_cache(model, revision) is None
    assert chat_template_of(model, revision) is None
