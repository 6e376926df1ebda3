"""LOS001 to LOS005, BAT006: what the releases make of a loss, by the gradient of completions that are the same for all.

The rules refuse on exactly the stacks where the gradient is another one.
"""

from pathlib import Path
from typing import Any

import pytest
from environments import NEWEST, STACKS
from laboratory import Laboratory
from rendered import declared
from small_recipe import resolved

from grpo_recipes.facts.released.windows import is_within

pytestmark = pytest.mark.stacks

SAME, ANOTHER = 1e-5, 1e-2
LUSPO = "1.9.0/5.23.0", NEWEST
DAPO = "0.23.1/4.57.6", *LUSPO
SHUFFLING = NEWEST
# Completions are shuffled over the micro-batches since trl 0.18.
IN_ORDER = "0.16.1/4.49.0"


def _gradient(laboratory: Laboratory, stack: str, **arguments: Any) -> Any:
    """The vector, a torch.Tensor."""
    import torch

    outcome = laboratory.run(stack, "loss_experiments.gradient", **arguments)
    assert outcome.result is not None, outcome.told
    return torch.load(outcome.result["file"])


def _difference(one: Any, other: Any) -> float:
    return float((one - other).norm() / other.norm())


def _refused_by(stack: str, text: str, folder: Path) -> set[str]:
    """The rules about the loss that refuse a recipe on a stack."""
    found = resolved(folder, text, declared(stack)).findings
    return {finding.rule for finding in found if finding.severity == "error" and finding.rule.startswith("LOS")}


@pytest.mark.parametrize("stack", ["0.19.1/4.52.4", *DAPO])
def test_bnpo_depends_on_the_micro_batch(stack: str, laboratory: Laboratory, tmp_path: Path) -> None:
    whole = _gradient(laboratory, stack, loss_type="bnpo", per_device_train_batch_size=16)
    halves = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2}
    assert _difference(_gradient(laboratory, stack, loss_type="bnpo", **halves), whole) > ANOTHER
    assert _refused_by(stack, "grpo: {loss_type: bnpo}\ntraining: {per_device_train_batch_size: 8}", tmp_path) == {
        "LOS001"
    }
    if stack in DAPO:
        one = _gradient(laboratory, stack, loss_type="dapo", per_device_train_batch_size=16)
        assert _difference(one, whole) < SAME
        assert _difference(_gradient(laboratory, stack, loss_type="dapo", **halves), one) < SAME


@pytest.mark.parametrize("stack", [IN_ORDER, "0.19.1/4.52.4", "0.26.2/4.57.6"])
def test_one_cut_is_one_loss_where_micro_batches_are_filled_alike(
    stack: str, laboratory: Laboratory, tmp_path: Path
) -> None:
    shapes = {8: {"gradient_accumulation_steps": 2}, 4: {"gradient_accumulation_steps": 4}}
    for size, steps in shapes.items():
        text = f"training: {{cut: {{processes: 1, per_device_train_batch_size: {size}}}}}\ngrpo: {{loss_type: bnpo}}"
        assert _refused_by(stack, text, tmp_path) == _refused_by(SHUFFLING, text, tmp_path) == set()
        loss = {} if stack == IN_ORDER else {"loss_type": "bnpo"}  # which is all that trl 0.16 has
        arguments = {"per_device_train_batch_size": size, **steps}
        own = _gradient(laboratory, stack, **loss, **arguments)
        newest = _gradient(laboratory, SHUFFLING, loss_type="bnpo", **arguments)
        difference = _difference(own, newest)
        assert difference > ANOTHER if stack == IN_ORDER else difference < SAME


@pytest.mark.parametrize("stack", DAPO)
def test_the_threshold_of_entropies_depends_on_the_micro_batch(stack: str, laboratory: Laboratory) -> None:
    loss = {"loss_type": "grpo", "top_entropy_quantile": 0.3}
    whole = _gradient(laboratory, stack, **loss, per_device_train_batch_size=16)
    halves = _gradient(laboratory, stack, **loss, per_device_train_batch_size=8, gradient_accumulation_steps=2)
    assert _difference(halves, whole) > ANOTHER


@pytest.mark.parametrize("stack", DAPO)
def test_dapo_counts_the_tokens_of_the_generation_until_1_9_1(
    stack: str, laboratory: Laboratory, tmp_path: Path
) -> None:
    one = _gradient(laboratory, stack, loss_type="dapo", per_device_train_batch_size=16)
    two = {"gradient_accumulation_steps": 1, "steps_per_generation": 2, "optimizer_steps": 2}
    summed = _gradient(laboratory, stack, loss_type="dapo", per_device_train_batch_size=8, **two)
    refused = _refused_by(stack, "grpo: {optimizer_steps_per_generation: 2}", tmp_path)
    if is_within(stack.partition("/")[0], "<1.9.1"):
        assert _difference(summed, one) < SAME, "two steps together are as long as one should be"
        assert refused == {"LOS002"}
    else:
        assert _difference(summed / 2, one) < SAME
        assert refused == set()


@pytest.mark.parametrize("stack", DAPO)
def test_dapo_counts_truncated_tokens_until_1_9_0(stack: str, laboratory: Laboratory, tmp_path: Path) -> None:
    masked = {"mask_truncated_completions": True, "per_device_train_batch_size": 16}
    right = _gradient(laboratory, stack, loss_type="bnpo", **masked)
    difference = _difference(_gradient(laboratory, stack, loss_type="dapo", **masked), right)
    refused = _refused_by(stack, "grpo: {mask_truncated_completions: true}", tmp_path)
    if is_within(stack.partition("/")[0], "<1.9.0"):
        assert (difference > ANOTHER, refused) == (True, {"LOS003"})
    else:
        assert (difference < SAME, refused) == (True, set())


@pytest.mark.parametrize("stack", LUSPO)
def test_luspo_averages_the_padding_in_until_1_10(stack: str, laboratory: Laboratory, tmp_path: Path) -> None:
    luspo = _gradient(laboratory, stack, loss_type="luspo", per_device_train_batch_size=16)
    dapo = _gradient(laboratory, stack, loss_type="dapo", per_device_train_batch_size=16)
    difference = _difference(luspo / luspo.norm(), dapo / dapo.norm())  # both add tokens up, and divide differently
    refused = _refused_by(stack, "grpo: {loss_type: luspo}", tmp_path)
    if is_within(stack.partition("/")[0], "<1.10"):
        assert (difference > ANOTHER, refused) == (True, {"LOS004"})
    else:
        assert (difference < SAME, refused) == (True, set())


@pytest.mark.parametrize("stack", STACKS)
def test_the_router_loss_has_a_coefficient_of_its_own_in_some_releases(stack: str, laboratory: Laboratory) -> None:
    outcome = laboratory.run(stack, "loss_experiments.attribute", name="router_aux_loss_coef")
    trl = stack.partition("/")[0]
    expected = "absent" if is_within(trl, "<1.7") else 0.001 if is_within(trl, "<1.14") else None
    assert outcome.result == {"value": expected}
