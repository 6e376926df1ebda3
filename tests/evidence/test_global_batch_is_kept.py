"""BAT001: the batch that TRL makes of a plan is the recipe's, and a refused one cannot be made."""

import itertools
from pathlib import Path

import pytest
from library import Library
from planned import resolved

from grpo_recipes.resolve.resolve import plan_of

pytestmark = pytest.mark.stack


def test_trl_trains_on_the_batch_of_the_recipe_in_every_world(library: Library, tmp_path: Path) -> None:
    wanted, cases = [], []
    for world, prompts, generations, steps in itertools.product(range(1, 9), (1, 4, 6), (2, 8), (1, 2)):
        grpo = {"num_generations": generations, "optimizer_steps_per_generation": steps}
        resolution = resolved(tmp_path, world, grpo, {"prompts_per_step": prompts, "max_steps": 1})
        completions = prompts * generations
        assert resolution.refused == bool(completions % world)
        if not resolution.refused:
            cases.append([world, plan_of(resolution).arguments.GRPOConfig])
            wanted.append([completions * steps, completions])
    assert len(cases) >= 50
    assert library.call("configs", cases=cases).result == wanted


def test_no_micro_batch_makes_a_batch_that_is_refused(library: Library, tmp_path: Path) -> None:
    world, prompts, generations = 4, 3, 2
    training = {"prompts_per_step": prompts, "max_steps": 1}
    resolution = resolved(tmp_path, world, {"num_generations": generations}, training)
    assert [finding.rule for finding in resolution.findings if finding.severity == "error"] == ["BAT001"]
    names = ("per_device_train_batch_size", "gradient_accumulation_steps")
    sizes = itertools.product(range(1, 7), range(1, 7))
    cases = [[world, {"num_generations": generations, **dict(zip(names, pair, strict=True))}] for pair in sizes]
    made = [batch for batch in library.call("configs", cases=cases).result if isinstance(batch, list)]
    assert made
    assert [batch for batch in made if prompts * generations in batch] == []
