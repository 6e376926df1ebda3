"""The parts that look into a live trainer, with a real one."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from worker_runs import LORA, Changes, lora_numbers

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.planned import read_plan

pytestmark = pytest.mark.stack


def on_batch() -> None:
    """Nobody watches the evaluations of these tests."""


@pytest.fixture(scope="module")
def lora_run(
    make_plan: Callable[..., Changes],
    held_out: Callable[..., Changes],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Plan, Any, Any]:
    """A plan with plain prompts and three rewards, its trainer, and its held-out rows."""
    from grpo_recipes.worker.data.dataset import prepare_rows
    from grpo_recipes.worker.model.build_trainer import build_trainer, training_arguments

    folder = tmp_path_factory.mktemp("live")
    content = make_plan("lora", arguments={"reward_weights": [1.0, 2.0, 1.0]}, evaluation=held_out())
    content["data"]["prompt_format"] = content["evaluation"]["data"]["prompt_format"] = "standard"
    content["rewards"] = [
        {**content["rewards"][0], "name": name, "weight": weight}
        for name, weight in (("odd", 1.0), ("later", 2.0), ("never", 1.0))
    ]
    (folder / "plan.json").write_text(json.dumps(content))
    plan = read_plan(folder)
    assert plan.evaluation is not None

    def odd(completions: list[str], solution: list[str], **kwargs: Any) -> list[float | None]:
        return [None if int(wanted) % 2 else 1.0 for wanted in solution]

    async def later(completions: list[str], completion_ids: list[list[int]], **kwargs: Any) -> list[float]:
        return [float(len(ids)) for ids in completion_ids]

    def never(completions: list[str], **kwargs: Any) -> list[None]:
        return [None for _ in completions]

    rows = prepare_rows(plan.data, "dataset", folder / "cache", 0)
    trainer = build_trainer(plan, training_arguments(plan, folder), rows, [odd, later, never], folder)
    return plan, trainer, prepare_rows(plan.evaluation.data, "evaluation", folder / "cache", 0)


def test_an_evaluation_leaves_modes_and_generators_as_they_were(lora_run: tuple[Plan, Any, Any]) -> None:
    import random

    import numpy
    import torch

    from grpo_recipes.worker.completions.evaluation import evaluate

    plan, trainer, rows = lora_run
    assert plan.evaluation is not None
    trainer.model.train()
    frozen = next(trainer.model.children())
    frozen.eval()
    modes = [module.training for module in trainer.model.modules()]
    before = (random.getstate(), numpy.random.get_state()[1].tolist(), torch.get_rng_state().tolist())
    sampled = dataclasses.replace(plan, evaluation=dataclasses.replace(plan.evaluation, greedy=False))

    first, second = evaluate(trainer, sampled, rows, on_batch), evaluate(trainer, sampled, rows, on_batch)

    assert [module.training for module in trainer.model.modules()] == modes
    assert before == (random.getstate(), numpy.random.get_state()[1].tolist(), torch.get_rng_state().tolist())
    assert first == second
    assert first != evaluate(trainer, plan, rows, on_batch)


def test_several_completions_are_drawn_by_row_in_batches_of_any_size(lora_run: tuple[Plan, Any, Any]) -> None:
    from grpo_recipes.worker.completions.evaluation import evaluate

    plan, trainer, rows = lora_run
    assert plan.evaluation is not None
    three = dataclasses.replace(plan.evaluation, greedy=False, samples=3)
    judged = evaluate(trainer, dataclasses.replace(plan, evaluation=three), rows, on_batch)
    assert [(one.row, one.sample) for one in judged] == [(row, sample) for row in range(11) for sample in range(3)]
    assert len({one.completion for one in judged}) > 11

    fewer = dataclasses.replace(three, samples=2, batch_size=7)
    again = evaluate(trainer, dataclasses.replace(plan, evaluation=fewer), rows, on_batch)
    assert again == [one for one in judged if one.sample < 2]


def test_means_are_those_of_the_rewards_that_were_given(lora_run: tuple[Plan, Any, Any]) -> None:
    from grpo_recipes.worker.completions.evaluation import evaluate
    from grpo_recipes.worker.completions.figures import summary

    plan, trainer, rows = lora_run
    judged = evaluate(trainer, plan, rows, on_batch)
    figures = summary(judged, plan)

    lengths = [row.rewards["later"] for row in judged]
    even = [row for row in judged if int(row.columns["solution"]) % 2 == 0]
    assert (figures["count"], figures["greedy"]) == (11, True)
    assert figures["rewards"] == {"odd": 1.0, "later": sum(lengths) / 11, "never": None}  # type: ignore[arg-type]
    assert figures["reward"] == pytest.approx((len(even) + 2 * sum(lengths)) / 11)  # type: ignore[arg-type]
    assert [row.row for row in judged] == list(range(11))


def test_batches_with_padding_answer_as_single_prompts_do(lora_run: tuple[Plan, Any, Any]) -> None:
    import torch

    from grpo_recipes.worker.completions.evaluation import evaluate

    plan, trainer, rows = lora_run
    judged = evaluate(trainer, plan, rows, on_batch)
    trainer.model.eval()
    for row, answer in zip(rows, judged, strict=True):
        inputs = trainer.processing_class(text=[row["prompt"]], return_tensors="pt")
        with torch.no_grad():
            ids = trainer.model.generate(**inputs, max_new_tokens=6, do_sample=False)
        text = trainer.processing_class.decode(ids[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        assert (answer.prompt, answer.completion) == (row["prompt"], text)


def test_the_models_own_generation_file_changes_nothing(lora_run: tuple[Plan, Any, Any]) -> None:
    from grpo_recipes.worker.completions.evaluation import evaluate

    plan, trainer, rows = lora_run
    before = evaluate(trainer, plan, rows, on_batch)
    own = trainer.model.generation_config
    kept = own.repetition_penalty, own.max_new_tokens
    own.repetition_penalty, own.max_new_tokens = 5.0, 2
    try:
        assert evaluate(trainer, plan, rows, on_batch) == before
    finally:
        own.repetition_penalty, own.max_new_tokens = kept


def different_in(plan: Plan, trainer: Any) -> set[str]:
    """The names of the values in which the live trainer is not the planned one."""
    from grpo_recipes.worker.model.loaded_trainer import loaded
    from grpo_recipes.worker.proofs.before_training.catalog import compared

    comparisons = compared(plan, [loaded(plan, trainer)])
    return {value.name for one in comparisons for value in one.values if not value.ok}


def test_only_what_the_plan_trains_is_trained(lora_run: tuple[Plan, Any, Any]) -> None:
    plan, trainer, _ = lora_run
    expect = dataclasses.replace(plan.expect, trainable_parameters=lora_numbers(LORA["r"]))
    plan = dataclasses.replace(plan, expect=expect)
    assert different_in(plan, trainer) == set()

    parameters = dict(trainer.model.named_parameters())
    adapter = next(parameter for name, parameter in parameters.items() if "lora_A" in name)
    norm = parameters["base_model.model.model.norm.weight"]
    adapter.requires_grad, norm.requires_grad = False, True
    try:
        different = different_in(plan, trainer)
    finally:
        adapter.requires_grad, norm.requires_grad = True, False
    assert different == {"trained but not planned", "planned but not trained", "trainable parameters"}


def test_a_head_that_is_trained_whole_beside_adapters_is_as_planned(tiny_model: Path) -> None:
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    from grpo_recipes.worker.model.loaded_trainer import expected_trainable

    lora = {**LORA, "modules_to_save": ["lm_head"]}
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(tiny_model), LoraConfig(**lora))
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert any("lm_head.modules_to_save" in name for name in trained)
    assert expected_trainable(model, lora) == trained


DIFFERENT = [
    pytest.param({"target_modules": ["q_proj"]}, "trained but not planned", id="fewer modules are planned"),
    pytest.param({"target_modules": r".*layers\.0.*proj"}, "trained but not planned", id="a pattern"),
    pytest.param({"target_modules": ["q_proj", "embed_tokens"]}, "planned but not trained", id="embeddings too"),
    pytest.param({"target_modules": ["lm_head"]}, "planned but not trained", id="the head"),
]


@pytest.mark.parametrize(("changes", "name"), DIFFERENT)
def test_other_target_modules_than_the_planned_are_noticed(
    changes: dict[str, Any], name: str, lora_run: tuple[Plan, Any, Any]
) -> None:
    plan, trainer, _ = lora_run
    arguments = dataclasses.replace(plan.arguments, LoraConfig={**LORA, **changes})
    assert name in different_in(dataclasses.replace(plan, arguments=arguments), trainer)


def test_another_dtype_than_the_planned_is_noticed(lora_run: tuple[Plan, Any, Any]) -> None:
    plan, trainer, _ = lora_run
    expect = dataclasses.replace(plan.expect, weights_dtype="bfloat16")
    assert different_in(dataclasses.replace(plan, expect=expect), trainer) == {"dtype of the weights"}


def test_new_tokens_are_learned_as_ordinary_ones(make_plan: Callable[..., Changes], tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from grpo_recipes.worker.model.own_model import write_own_model

    content = make_plan()
    content["tokenizer"]["add_tokens"] = ["<search>", "</search>"]
    (tmp_path / "plan.json").write_text(json.dumps(content))
    write_own_model(read_plan(tmp_path), tmp_path / "extended_model")

    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "extended_model")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "extended_model")
    ids = tokenizer("1<search>2</search>")["input_ids"]
    assert len(ids) == 4
    assert tokenizer.decode(ids, skip_special_tokens=True) == "1<search>2</search>"
    assert model.get_input_embeddings().weight.shape[0] == len(tokenizer)
    assert [path.name for path in tmp_path.iterdir()] in (
        ["plan.json", "extended_model"],
        ["extended_model", "plan.json"],
    )
