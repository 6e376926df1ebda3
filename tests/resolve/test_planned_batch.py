"""The plan says how prompts become optimizer steps, the same whichever fields a release is passed."""

from pathlib import Path

from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.plan_machine import Batch
from grpo_recipes.resolve.resolve import plan_of, resolve
from grpo_recipes.stack.target import parse_target

RECIPES = sorted(Path("recipes").glob("*.yaml"))
REST = "python==3.11,torch==2.9.0,datasets==3.6.0,deepspeed==0.18.2,bitsandbytes==0.48.0,math-verify==0.8.0"
STACKS = {
    "0.15.2": f"trl==0.15.2,transformers==4.48.3,peft==0.14.0,accelerate==1.3.0,{REST}",
    "0.19.1": f"trl==0.19.1,transformers==4.52.4,peft==0.15.2,accelerate==1.8.1,{REST}",
    "1.16.0": "tested",
}


def _plan(recipe: Path, stack: str, gpus: str, *overrides: str) -> Plan | None:
    declared, _ = parse_target(f"{STACKS[stack]},gpus={gpus}")
    assert declared is not None
    resolution = resolve(str(recipe), declared, overrides)
    return None if resolution.refused else plan_of(resolution)


def test_the_batch_is_prompts_generations_and_how_they_are_cut() -> None:
    asked = ("training.prompts_per_step=8", "grpo.num_generations=4", "training.per_device_train_batch_size=4")
    alone = _plan(Path("recipes/quickstart.yaml"), "1.16.0", "0", *asked, "launch.num_processes=1")
    two = _plan(Path("recipes/quickstart.yaml"), "1.16.0", "0", *asked, "launch.num_processes=2")
    more = _plan(
        Path("recipes/quickstart.yaml"),
        "1.16.0",
        "0",
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
    plan, without = (_plan(recipe, "1.16.0", "0", f"grpo.resample_groups={rounds}") for rounds in (3, 0))
    assert plan is not None and without is not None
    (row,) = [row for row in plan.settings if row.key == "grpo.resample_groups"]
    assert (plan.resample_groups, row.kind) == (3, "experiment")
    assert row.why == "a step generates and rewards up to 4 times as much"
    assert plan.memory is not None and without.memory is not None
    assert plan.memory.phases == without.memory.phases, "what is redrawn comes one after the other"
    assert "grpo.resample_groups" not in {row.key for row in without.settings}
