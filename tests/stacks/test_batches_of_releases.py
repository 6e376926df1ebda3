"""BAT002 to BAT005: a batch is refused where the release refuses it, and what is planned is taken."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from laboratory import Laboratory
from raw_experiments import RAW
from rendered import declared
from small_recipe import resolved

from grpo_recipes.resolve.resolve import Resolution, plan_of

pytestmark = pytest.mark.stacks

OLD = "0.15.2/4.48.3", "0.16.1/4.49.0", "0.19.1/4.52.4", "0.26.2/4.57.6"


def _resolution(stack: str, text: str, folder: Path, max_completion_length: int = 8) -> Resolution:
    generation = f"generation: {{top_k: 50, max_completion_length: {max_completion_length}}}"
    return resolved(folder, f"{generation}\n{text}", declared(stack))


def _loss(stack: str) -> str:
    return "bnpo" if stack.startswith("0.16.") else "grpo"


def _refused(resolution: Resolution) -> set[str]:
    return {finding.rule for finding in resolution.findings if finding.severity == "error"}


@pytest.mark.parametrize("stack", OLD)
def test_a_shape_is_refused_where_the_release_refuses_it(stack: str, laboratory: Laboratory, tmp_path: Path) -> None:
    shapes: list[tuple[int, dict[str, Any]]] = []
    rule: list[bool] = []
    for processes, size, steps, generations in product((1, 2), (1, 3, 4), (1, 2, 4), (2, 4)):
        text = (
            f"grpo: {{loss_type: {_loss(stack)}, num_generations: {generations}}}\n"
            f"training: {{prompts_per_step: null, per_device_train_batch_size: {size}}}\n"
            f"trl: {{gradient_accumulation_steps: {steps}}}\nlaunch: {{num_processes: {processes}}}"
        )
        found = _refused(_resolution(stack, text, tmp_path)) - {"LOS001"}
        assert found <= {"BAT002", "BAT003"}, (text, found)
        rule.append(bool(found))
        numbers = {"per_device_train_batch_size": size, "gradient_accumulation_steps": steps}
        shapes.append((processes, {**numbers, "num_generations": generations, "max_completion_length": 8}))
    outcome = laboratory.run(stack, "loss_experiments.accepted", shapes=shapes)
    assert outcome.result is not None, outcome.told
    assert [
        (shape, said) for shape, said, judged in zip(shapes, outcome.result, rule, strict=True) if bool(said) != judged
    ] == []
    assert 0.1 < sum(rule) / len(rule) < 0.9


@pytest.mark.parametrize("stack", OLD)
def test_a_planned_batch_is_taken(stack: str, laboratory: Laboratory, tmp_path: Path) -> None:
    shapes = []
    for processes, prompts, generations, longest in product((1, 2), (1, 3, 4), (2, 4), (64, 8192)):
        text = (
            f"grpo: {{loss_type: {_loss(stack)}, num_generations: {generations}}}\n"
            f"training: {{prompts_per_step: {prompts}}}\nlaunch: {{num_processes: {processes}}}"
        )
        resolution = _resolution(stack, text, tmp_path, max_completion_length=longest)
        if not resolution.refused:
            shapes.append((processes, plan_of(resolution).arguments.GRPOConfig))
    assert len(shapes) > 5
    outcome = laboratory.run(stack, "loss_experiments.accepted", shapes=shapes)
    assert outcome.result is not None, outcome.told
    assert [(shape, said) for shape, said in zip(shapes, outcome.result, strict=True) if said] == []


@pytest.mark.parametrize(
    ("stack", "field"), [("0.14.0/4.48.3", "reward_weights"), ("0.16.1/4.49.0", "steps_per_generation")]
)
def test_a_field_that_a_rule_stands_in_for_is_not_there(stack: str, field: str, laboratory: Laboratory) -> None:
    outcome = laboratory.run(stack, "loss_experiments.attribute", name=field)
    assert outcome.result == {"value": "absent"}


@pytest.mark.parametrize(("stack", "seen"), [("0.14.0/4.48.3", "silently wrong"), ("0.15.2/4.48.3", "right")])
def test_padded_prompts_are_scored_wrong_before_0_15(stack: str, seen: str, laboratory: Laboratory) -> None:
    assert RAW[0]["Qwen2 with left-padded prompts"].outcome(laboratory, stack).startswith(seen)
