"""GEN003: what TRL hands to vLLM of a policy, loaded by name as vLLM does, is the policy or something else."""

from typing import Any

import pytest
from library import Library

pytestmark = pytest.mark.stack

PLAIN = {"r": 4, "target_modules": ["q_proj", "v_proj"]}
SAME = [
    pytest.param(None, True, id="all weights"),
    pytest.param(PLAIN, True, id="an adapter"),
    pytest.param(PLAIN | {"use_dora": True, "use_rslora": True}, True, id="DoRA"),
    pytest.param(PLAIN | {"bias": "all"}, True, id="biases"),
    pytest.param(PLAIN | {"modules_to_save": ["norm"]}, True, id="norms"),
    pytest.param(PLAIN | {"modules_to_save": ["embed_tokens"], "ensure_weight_tying": True}, True, id="kept tied"),
    pytest.param(PLAIN | {"modules_to_save": ["embed_tokens", "lm_head"]}, False, id="both, untied"),
    pytest.param({"r": 4, "target_modules": ["q_proj", "embed_tokens", "lm_head"]}, False, id="adapted, untied"),
]
ANOTHER = [
    pytest.param(PLAIN | {"modules_to_save": ["lm_head"]}, id="an output layer"),
    pytest.param(PLAIN | {"modules_to_save": ["embed_tokens"]}, id="embeddings"),
    pytest.param({"r": 4, "target_modules": ["q_proj", "lm_head"]}, id="an adapted output layer"),
    pytest.param({"r": 4, "target_modules": ["q_proj", "embed_tokens"]}, id="adapted embeddings"),
    pytest.param({"r": 4, "target_modules": ["lm_head"], "ensure_weight_tying": True}, id="adapted, kept tied"),
]


@pytest.mark.parametrize(("lora", "tied"), SAME)
def test_vllm_can_load_the_policy(library: Library, lora: dict[str, Any] | None, tied: bool) -> None:
    seen = library.call("in_vllm.seen_by_vllm", lora=lora, tied=tied).result
    assert (seen["unknown"], seen["unfit"]) == ([], [])
    assert seen["difference"] < 1e-4


@pytest.mark.parametrize("lora", ANOTHER)
def test_of_tied_embeddings_vllm_makes_another_model(library: Library, lora: dict[str, Any]) -> None:
    seen = library.call("in_vllm.seen_by_vllm", lora=lora).result
    assert (seen["unknown"], seen["unfit"]) == ([], [])
    assert seen["difference"] > 1


def test_tensors_that_the_model_does_not_have(library: Library) -> None:
    seen = library.call("in_vllm.seen_by_vllm", lora=PLAIN | {"trainable_token_indices": [3, 4]}).result
    assert "model.embed_tokens.token_adapter.weight" in seen["unknown"]


def test_an_adapter_that_cannot_be_merged_raises_at_the_first_step(library: Library) -> None:
    answer = library.call("in_vllm.seen_by_vllm", lora=PLAIN | {"alora_invocation_tokens": [3, 4]})
    assert (answer.stage, answer.raised) == ("train", "NotImplementedError")


@pytest.mark.parametrize(("width", "dtype"), [("load_in_4bit", "torch.uint8"), ("load_in_8bit", "torch.int8")])
def test_of_a_quantized_model_vllm_gets_the_bits_without_their_scales(library: Library, width: str, dtype: str) -> None:
    answer = library.call("in_vllm.seen_by_vllm", lora=PLAIN, quantization={width: True})
    assert answer.raised == "", answer.text
    name, shape, own, got = answer.result["unfit"][0]
    assert (name, got) == ("model.layers.0.self_attn.q_proj.weight", dtype)
    assert (shape == own) == (width == "load_in_8bit")


def test_eight_bits_raise_when_vllm_is_started_beside_them(library: Library) -> None:
    answer = library.call("in_vllm.start_vllm", mode="colocate", quantization={"load_in_8bit": True})
    assert (answer.stage, answer.raised) == ("trainer", "ValueError")
    assert "does not support in-flight 8-bit" in answer.text
