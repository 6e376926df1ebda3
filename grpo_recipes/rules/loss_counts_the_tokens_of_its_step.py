"""A loss that is divided by the tokens of a step uses that step's tokens, not the whole generation's.

dapo, cispo and vespo divide by the number of trained tokens. TRL counts them once per generation; if one generation
feeds several optimizer steps, TRL before 1.9.1 divides the loss by the tokens of all of them, so the gradient is too
small by that factor: measured exactly half with two steps per generation. TRL 1.9.1 rescales it.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.losses import loss_of

ID = "LOS002"
APPLIES_TO = {"trl": ">=0.22,<1.9.1"}
PER_GENERATION = "grpo.optimizer_steps_per_generation"
STEPS = "GRPOConfig.steps_per_generation"


def check(context: Context) -> Iterator[Finding]:
    loss, accumulation = context.value("GRPOConfig.loss_type"), context.whole("GRPOConfig.gradient_accumulation_steps")
    steps = _steps_per_generation(context, accumulation)
    if loss_of(context).divides_by != "step" or steps == accumulation:
        return
    ours = context.value("training.prompts_per_step") is not None
    batch = context.value("GRPOConfig.generation_batch_size") is not None
    key = PER_GENERATION if ours else "GRPOConfig.generation_batch_size" if batch else STEPS
    name = key.partition(".")[2]
    yield context.wrong(
        f"loss_type {loss} is divided by the tokens of {steps} micro-batches but trains on {accumulation}",
        key,
        f"trl {context.stack.version('trl')} counts the tokens of the whole generation, so the gradient is"
        f" {accumulation}/{steps} of what it should be",
        1 if ours else None,
        fix=f"{name}: 1, or trl==1.9.1" if ours else f"remove {name}, or trl==1.9.1",
    )


def _steps_per_generation(context: Context, accumulation: int) -> int:
    batch, steps = context.value("GRPOConfig.generation_batch_size"), context.value(STEPS)
    if isinstance(batch, int):
        size = context.whole("GRPOConfig.per_device_train_batch_size") * context.whole("world.num_processes")
        return batch // size
    return steps if isinstance(steps, int) else accumulation
