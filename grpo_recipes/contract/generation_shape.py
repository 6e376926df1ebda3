"""How many prompts share a generation, and how generations make optimizer steps, whichever fields the plan passes."""

from dataclasses import dataclass

from grpo_recipes.contract.plan import Plan

MICRO_BATCH = "GRPOConfig.per_device_train_batch_size"


@dataclass(frozen=True, slots=True)
class GenerationShape:
    """prompts: of a generation, all processes together. micro_batches: of a generation in each process.

    accumulation: micro-batches of an optimizer step in each process. num_generations: completions of a prompt.
    """

    prompts: int
    micro_batches: int
    accumulation: int
    num_generations: int


def generation_shape(plan: Plan) -> GenerationShape:
    """The shape of a plan; its micro-batch is the recipe's, in completions, also where it is passed in prompts."""
    passed = {name: value for name, value in plan.arguments.GRPOConfig.items() if isinstance(value, int)}
    of_the_recipe = {setting.key: setting.value for setting in plan.settings}
    size = of_the_recipe.get(MICRO_BATCH, passed.get("per_device_train_batch_size", 1))
    accumulation = passed.get("gradient_accumulation_steps", 1)
    completions = int(str(size)) * plan.world.num_processes
    feeds = passed.get("steps_per_generation", passed.get("generation_batch_size", 0) // completions or accumulation)
    generations = passed.get("num_generations", 1)
    return GenerationShape(max(1, feeds * completions // generations), feeds, accumulation, generations)
