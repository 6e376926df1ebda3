"""What the vLLM engine in the training process is built with."""

from dataclasses import replace
from pathlib import Path

import pytest
from test_proof_statements import planned

from grpo_recipes.contract.plan import Model, Plan
from grpo_recipes.contract.plan_sections import Vllm

pytestmark = pytest.mark.stack

OF_TRL = {"model": "team/model", "seed": 1, "max_num_batched_tokens": 4096, "logprobs_mode": "processed_logprobs"}


def with_vllm(**engine: object) -> Plan:
    """A plan of seed 7 whose vLLM computes in float32."""
    return replace(planned(use_vllm=True), vllm=Vllm("colocate", "float32", engine))


def test_what_trl_passes_stays_but_for_the_seed() -> None:
    from grpo_recipes.worker.vllm.engine import engine_keywords

    found = engine_keywords(with_vllm(), OF_TRL, Path())
    assert {**found, "seed": 1} == {**OF_TRL, "dtype": "float32"}


def test_the_engine_keywords_of_the_plan_win() -> None:
    from grpo_recipes.worker.vllm.engine import engine_keywords

    found = engine_keywords(with_vllm(max_num_batched_tokens=512, enforce_eager=True), OF_TRL, Path())
    assert (found["max_num_batched_tokens"], found["enforce_eager"]) == (512, True)


def test_a_model_of_the_hub_is_loaded_at_the_commit_of_the_plan() -> None:
    from grpo_recipes.worker.vllm.engine import engine_keywords

    plan = replace(with_vllm(), model=Model("hub", "team/model", revision="main", commit="abc"))
    found = engine_keywords(plan, OF_TRL, Path())
    assert (found["revision"], found["tokenizer_revision"]) == ("abc", "abc")
    assert "revision" not in engine_keywords(with_vllm(), OF_TRL, Path())


def test_groups_steps_and_calls_draw_other_numbers_and_a_recipe_the_same() -> None:
    from grpo_recipes.worker.vllm.engine import engine_keywords, seed_of_engine, seed_of_generation

    assert engine_keywords(with_vllm(), OF_TRL, Path())["seed"] == seed_of_engine(7, 1)
    seeds = {seed_of_engine(seed, group) for seed in range(3) for group in range(8)}
    seeds |= {seed_of_generation(7, group, step, call) for group in range(4) for step in range(20) for call in range(3)}
    assert len(seeds) == 3 * 8 + 4 * 20 * 3
    assert max(seeds) < 2**31


def test_without_vllm_nothing_is_replaced() -> None:
    from trl.trainer import grpo_trainer

    from grpo_recipes.worker.vllm.engine import build_as_planned

    before = dict(vars(grpo_trainer))
    with build_as_planned(with_vllm(), Path()), build_as_planned(planned(), Path()):
        assert vars(grpo_trainer).keys() == before.keys()
