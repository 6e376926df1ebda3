"""BAT006: a loss over the tokens of a micro-batch has another gradient for each cut, and the plan makes the claimed."""

from pathlib import Path
from typing import Any

import pytest
from library import Library
from planned import resolved

from grpo_recipes.resolve.resolve import Resolution, plan_of

pytestmark = pytest.mark.stack

GENERATIONS, PROMPTS = 4, 4
REWARD = "def length(completions, **kwargs):\n    return [float(len(text)) for text in completions]"


def _recipe(folder: Path, size: int, *, processes: int = 1, claims: int = 1, **grpo: Any) -> Resolution:
    cut = {"processes": claims, "per_device_train_batch_size": size}
    training = {"prompts_per_step": PROMPTS, "max_steps": 1, "cut": cut}
    return resolved(folder, processes, {"num_generations": GENERATIONS, **grpo}, training)


def _gradient_norm(library: Library, resolution: Resolution) -> float:
    """The norm of the first step's gradient, as TRL trains the plan on completions of many lengths."""
    planned = plan_of(resolution).arguments.GRPOConfig
    names = ("loss_type", "top_entropy_quantile", "num_generations", "per_device_train_batch_size")
    names += ("gradient_accumulation_steps", "steps_per_generation", "max_steps")
    arguments = {name: planned[name] for name in names} | {"max_completion_length": 24, "seed": 3}
    answer = library.call("train", arguments=arguments, rewards=REWARD)
    assert answer.raised == "", answer.text
    return float(answer.result["logs"][0]["grad_norm"])


@pytest.mark.parametrize("loss", [{"loss_type": "bnpo"}, {"top_entropy_quantile": 0.3}], ids=str)
def test_another_cut_has_another_gradient(library: Library, tmp_path: Path, loss: dict[str, Any]) -> None:
    whole, halves = (_gradient_norm(library, _recipe(tmp_path, size, **loss)) for size in (16, 4))
    assert abs(halves / whole - 1) > 0.01
    assert _gradient_norm(library, _recipe(tmp_path, 4, **loss)) == halves


def test_the_loss_of_the_whole_step_has_one_gradient_for_every_cut(library: Library, tmp_path: Path) -> None:
    whole, halves = (_gradient_norm(library, _recipe(tmp_path, size)) for size in (16, 4))
    assert halves == pytest.approx(whole, rel=1e-4)


@pytest.mark.parametrize("processes", [1, 2, 8])
def test_other_processes_are_refused(tmp_path: Path, processes: int) -> None:
    resolution = _recipe(tmp_path, 2, processes=processes, claims=2, loss_type="bnpo")
    refused = [finding.rule for finding in resolution.findings if finding.severity == "error"]
    assert refused == ([] if processes == 2 else ["BAT006"])
