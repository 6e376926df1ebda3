"""The plan says how prompts become optimizer steps, the same whichever fields a release is passed."""

from pathlib import Path

from grpo_recipes.contract.plan import Batch, Plan
from grpo_recipes.resolve.resolve import plan_of, resolve
from grpo_recipes.stack.target import parse_target


def _plan(recipe: Path, *overrides: str) -> Plan | None:
    declared, _ = parse_target("tested,gpus=0")
    assert declared is not None
    resolution = resolve(str(recipe), declared, overrides)
    return None if resolution.refused else plan_of(resolution)


def test_the_batch_is_prompts_generations_and_how_they_are_cut() -> None:
    asked = ("training.prompts_per_step=8", "grpo.num_generations=4", "training.per_device_train_batch_size=4")
    alone = _plan(Path("recipes/quickstart.yaml"), *asked, "launch.num_processes=1")
    two = _plan(Path("recipes/quickstart.yaml"), *asked, "launch.num_processes=2")
    more = _plan(
        Path("recipes/quickstart.yaml"),
        *asked,
        "grpo.optimizer_steps_per_generation=2",
        "evaluation=null",
    )
    assert alone is not None and two is not None and more is not None
    assert alone.batch == Batch(4, accumulation=8, steps_per_generation=8, num_generations=4, prompts=8)
    assert two.batch == Batch(4, accumulation=4, steps_per_generation=4, num_generations=4, prompts=8)
    assert (more.batch.steps_per_generation, more.batch.prompts) == (2 * more.batch.accumulation, 16)


def test_the_plan_says_what_redrawing_costs_at_most() -> None:
    recipe = Path("recipes/quickstart.yaml")
    plan, without = (_plan(recipe, f"grpo.resample_groups={rounds}") for rounds in (3, 0))
    assert plan is not None and without is not None
    (row,) = [row for row in plan.settings if row.key == "grpo.resample_groups"]
    assert (plan.resample_groups, row.kind) == (3, "experiment")
    assert row.why == "a step generates and rewards up to 4 times as much"
    assert plan.memory is not None and without.memory is not None
    assert plan.memory.phases == without.memory.phases, "what is redrawn comes one after the other"
    assert "grpo.resample_groups" not in {row.key for row in without.settings}
