"""A checkpoint is written where the completions of a generation are used up.

The completions that are still to be trained on are in no checkpoint. A run that is resumed from a step between two
generations makes new ones for prompts that it had answered already, and comes to other weights than a run that was not
interrupted, without a word. A generation feeds steps_per_generation x num_iterations micro-batches, and an optimizer
step takes gradient_accumulation_steps of them: save_steps x accumulation has to be a multiple of the former. The 500
of the format is rounded up to one; a value that was written is checked.
"""

from collections.abc import Iterator
from math import gcd

from grpo_recipes.finding import Finding, Patch
from grpo_recipes.rules.context import Context, NotJudged, decided
from grpo_recipes.settings import Setting

ID = "TRN008"
SAVE_STEPS = "GRPOConfig.save_steps"
ACCUMULATION, FEEDS = "GRPOConfig.gradient_accumulation_steps", "GRPOConfig.steps_per_generation"
ITERATIONS, BATCH = "GRPOConfig.num_iterations", "GRPOConfig.generation_batch_size"
OWNS = (SAVE_STEPS,)
ORDER = 15


def decide(context: Context) -> Iterator[Setting]:
    steps, unit = context.whole(SAVE_STEPS), _steps_between(context)
    if context.given(SAVE_STEPS) or steps % unit == 0:
        return
    why = f"{steps} in whole generations of {unit} optimizer steps"
    yield decided(SAVE_STEPS, -(-steps // unit) * unit, ID, why, context.settings)


def check(context: Context) -> Iterator[Finding]:
    steps, unit = context.whole(SAVE_STEPS), _steps_between(context)
    if steps % unit == 0:
        return
    less, more = steps // unit * unit, -(-steps // unit) * unit
    nearest = less if less and steps - less <= more - steps else more
    other = more if nearest == less else less
    feeds, accumulation, iterations = _feeds(context), context.whole(ACCUMULATION), context.whole(ITERATIONS)
    yield context.finding(
        ID,
        f"save_steps {steps} writes checkpoints between the steps of a generation",
        SAVE_STEPS,
        because=[
            f"a generation ends every {unit} optimizer steps: {feeds} micro-batches x num_iterations {iterations}"
            f" ({context.origin(ITERATIONS)}), {accumulation} in a step",
            "its completions are in no checkpoint: a resumed run makes new ones, and comes to other weights",
        ],
        fix=f"save_steps: {nearest}" + (f", or {other}" if other else ""),
        patch=[Patch(("training", "save_steps"), nearest)],
    )


def _steps_between(context: Context) -> int:
    """Optimizer steps after which a generation is used up, or several are."""
    batches, accumulation = _feeds(context) * context.whole(ITERATIONS), context.whole(ACCUMULATION)
    if batches < 1 or accumulation < 1:
        raise NotJudged(FEEDS)
    return batches // gcd(batches, accumulation)


def _feeds(context: Context) -> int:
    """Micro-batches of each process that one generation has."""
    feeds, batch = context.value(FEEDS), context.value(BATCH)
    if isinstance(feeds, int):
        return feeds
    size = context.whole("GRPOConfig.per_device_train_batch_size") * context.whole("world.num_processes")
    if isinstance(batch, int) and size > 0:
        return batch // size
    return context.whole(ACCUMULATION)
