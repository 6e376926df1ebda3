"""FCT003 for generation_kwargs: each key has its place in the format, or the nearest one is named."""

from pathlib import Path

import pytest
import yaml
from small_recipe import STACK, errors, resolved

from grpo_recipes.yaml.compose import patched

WITH_VLLM = "trl==1.16.0,transformers==5.23.0,peft==0.21.2,vllm==0.28.0,gpus=1xH100-80GB"

KEYS = [
    pytest.param("stop: </answer>", "stop is generation.stop", {"stop": ["</answer>"]}, id="a stop"),
    pytest.param("eos_token_id: [7]", "eos_token_id is generation.stop_token_ids", {"stop_token_ids": [7]}, id="ids"),
    pytest.param(
        "max_tokens: 64", "max_tokens is generation.max_completion_length", {"max_completion_length": 64}, id="vLLM"
    ),
    pytest.param("do_sample: true", "do_sample is always true", {}, id="always so"),
    pytest.param(
        "min_new_tokens: 4", "min_new_tokens is generation.min_tokens", {"min_tokens": 4}, id="a shortest one"
    ),
    pytest.param(
        "typical_p: 0.9",
        "typical_p is of transformers",
        {"generation_kwargs": {"typical_p": 0.9}},
        id="of transformers",
    ),
    pytest.param("num_beams: 4", "num_beams is not for a recipe", {}, id="of no run"),
    pytest.param("max_new_tokenz: 64", "the nearest is max_new_tokens", {"max_completion_length": 64}, id="misspelt"),
    pytest.param("lenght_penalty: 2.0", "the nearest is length_penalty", {}, id="a misspelt key of no run"),
    pytest.param(
        "typical_pp: 0.9", "the nearest is typical_p", {"generation_kwargs": {"typical_p": 0.9}}, id="a misspelt key"
    ),
    pytest.param("nonsense: 1", "nonsense is known to neither vLLM nor transformers", {}, id="unknown"),
]


@pytest.mark.parametrize(("text", "said", "written"), KEYS)
def test_each_key_has_its_place(text: str, said: str, written: dict[str, object], tmp_path: Path) -> None:
    recipe = f"trl: {{generation_kwargs: {{{text}}}}}"
    found = errors(resolved(tmp_path, recipe, WITH_VLLM))
    assert [(finding.rule, finding.key) for finding in found] == [("FCT003", "trl.generation_kwargs")]
    assert any(said in reason for reason in found[0].because), found[0].because
    mended = patched(yaml.safe_load(recipe), found[0].patch)
    assert mended.get("generation", {}) == written
    assert errors(resolved(tmp_path, yaml.safe_dump(mended), WITH_VLLM)) == []


def test_a_value_that_has_its_place_already_stays(tmp_path: Path) -> None:
    recipe = "generation: {temperature: 0.7}\ntrl: {generation_kwargs: {temperature: 0.5}}"
    found = errors(resolved(tmp_path, recipe, STACK))
    assert patched(yaml.safe_load(recipe), found[0].patch)["generation"] == {"temperature": 0.7}


def test_a_key_of_vllm_is_moved_and_judged_where_it_belongs(tmp_path: Path) -> None:
    recipe = "generation: {use_vllm: true}\ntrl: {generation_kwargs: {frequency_penalty: 0.5}}"
    mended = patched(yaml.safe_load(recipe), errors(resolved(tmp_path, recipe, WITH_VLLM))[0].patch)
    assert mended["generation"] == {"use_vllm": True, "generation_kwargs": {"frequency_penalty": 0.5}}
    assert errors(resolved(tmp_path, yaml.safe_dump(mended), WITH_VLLM)) == []
    with_transformers = resolved(tmp_path, "trl: {generation_kwargs: {frequency_penalty: 0.5}}", WITH_VLLM)
    assert "frequency_penalty is of vLLM" in errors(with_transformers)[0].because
