"""What a plan tells vLLM beside TRL's own arguments, and how the held-out rows are sampled then."""

from pathlib import Path
from typing import Any

import pytest
from small_recipe import resolved

from grpo_recipes.contract.plan import Evaluation, Plan, to_json
from grpo_recipes.contract.read_plan import from_json
from grpo_recipes.resolve.resolve import plan_of

WITH_VLLM = "trl==1.16.0,transformers==5.17.0,peft==0.21.2,vllm==0.31.0,gpus=2xH100-80GB"


def _plan(folder: Path, text: str) -> Plan:
    return plan_of(resolved(folder, text, WITH_VLLM))


def _sampling(plan: Plan) -> dict[str, Any]:
    assert isinstance(plan.evaluation, Evaluation)
    return plan.evaluation.sampling


def test_transformers_are_told_nothing_of_vllm(tmp_path: Path) -> None:
    assert _plan(tmp_path, "generation: {use_vllm: false}").vllm is None


@pytest.mark.parametrize(
    ("text", "mode", "dtype"),
    [
        pytest.param("generation: {use_vllm: true}", "colocate", "float32", id="float32-weights"),
        pytest.param("generation: {use_vllm: true}\ntraining: {bf16: true}", "colocate", "bfloat16", id="autocast"),
        pytest.param("generation: {use_vllm: true}\nvllm_server: {gpus: 1}", "server", "float32", id="a-server"),
    ],
)
def test_vllm_computes_as_the_trainer(tmp_path: Path, text: str, mode: str, dtype: str) -> None:
    vllm = _plan(tmp_path, text).vllm
    assert vllm is not None
    assert (vllm.mode, vllm.dtype) == (mode, dtype)
    assert (vllm.server is not None) == (mode == "server")


def test_engine_arguments_are_in_the_plan_by_their_own_names(tmp_path: Path) -> None:
    plan = _plan(tmp_path, "generation: {use_vllm: true, vllm_engine: {enforce_eager: true, max_num_seqs: 8}}")
    assert plan.vllm is not None
    assert plan.vllm.engine == {"enforce_eager": True, "max_num_seqs": 8}
    assert from_json(to_json(plan)) == plan
    kinds = {row.key: row.kind for row in plan.settings}
    assert (kinds["generation.vllm_engine"], kinds["vllm.dtype"]) == ("machine", "machine")


def test_the_keys_of_a_generator_are_passed_with_the_stops(tmp_path: Path) -> None:
    text = "generation: {use_vllm: true, stop: [x], generation_kwargs: {frequency_penalty: 0.5}}"
    passed = _plan(tmp_path, text).arguments.GRPOConfig["generation_kwargs"]
    assert isinstance(passed, dict)
    assert (passed["frequency_penalty"], passed["stop"]) == (0.5, ["x"])


def test_held_out_rows_are_sampled_with_what_transformers_know(tmp_path: Path) -> None:
    held_out = "evaluation: {split: test}\n"
    own = _plan(tmp_path, held_out + "generation: {min_tokens: 4, generation_kwargs: {typical_p: 0.9}}")
    assert (_sampling(own)["min_new_tokens"], _sampling(own)["typical_p"]) == (4, 0.9)
    of_vllm = "generation: {use_vllm: true, min_tokens: 4, generation_kwargs: {frequency_penalty: 0.5}}"
    sampling = _sampling(_plan(tmp_path, held_out + of_vllm))
    assert sampling["min_new_tokens"] == 4
    assert "frequency_penalty" not in sampling


@pytest.mark.parametrize(
    ("text", "who"),
    [
        pytest.param("generation: {use_vllm: false}\nevaluation: {split: test}", "transformers", id="no-vllm"),
        pytest.param("generation: {use_vllm: true}\nevaluation: {split: test}", "vllm", id="colocate"),
        pytest.param(
            "generation: {use_vllm: true}\nevaluation: {split: test, use_vllm: false}", "transformers", id="refused"
        ),
        pytest.param(
            "generation: {use_vllm: true}\nvllm_server: {gpus: 1}\nevaluation: {split: test}",
            "transformers",
            id="a-server",
        ),
        pytest.param(
            "generation: {use_vllm: true}\nvllm_server: {gpus: 1}\nevaluation: {split: test, use_vllm: true}",
            "vllm",
            id="a-server-that-is-asked",
        ),
    ],
)
def test_who_answers_held_out_rows_is_in_the_plan(tmp_path: Path, text: str, who: str) -> None:
    plan = _plan(tmp_path, text)
    assert isinstance(plan.evaluation, Evaluation)
    assert plan.evaluation.generated_by == who
    assert from_json(to_json(plan)) == plan
