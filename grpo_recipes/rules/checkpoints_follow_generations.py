"""A checkpoint is written once the completions of a generation are used up.

A checkpoint holds no completions that are still to be trained on. A run resumed between two generations would generate
new completions for prompts that it had already answered, and end with different weights than an uninterrupted run. A
generation feeds steps_per_generation x num_iterations micro-batches, and an optimizer step takes
gradient_accumulation_steps of them, so save_steps x accumulation has to be a multiple of that number. The format's
default of 500 is rounded up to such a number, or follows the evaluations if the best checkpoint is kept. With any other
number, the run delays each checkpoint until the generation is used up: resuming stays exact, but checkpoints are
written at different steps.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.batch_cut import (
    ACCUMULATION,
    FEEDS,
    ITERATIONS,
    MICRO_BATCH,
    micro_batches_fed,
    steps_of_generations,
)
from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.settings import Setting

ID = "TRN008"
SAVE_STEPS = "GRPOConfig.save_steps"
OWNS = (SAVE_STEPS,)
READS = (ACCUMULATION, FEEDS, MICRO_BATCH, "world.num_processes")


def decide(context: Context) -> Iterator[Setting]:
    if context.is_given(SAVE_STEPS):
        return
    steps, unit = context.whole(SAVE_STEPS), steps_of_generations(context)
    every = context.value("evaluation.every_steps") if context.value("evaluation.keep_best") is True else None
    why = f"{steps} in whole generations of {unit} optimizer steps"
    if isinstance(every, int) and every > 0:
        steps, why = every, "evaluation.keep_best: a checkpoint at each evaluation"
    if steps % unit or every:
        yield rule_setting(SAVE_STEPS, -(-steps // unit) * unit, why)


def check(context: Context) -> Iterator[Finding]:
    steps, unit = context.whole(SAVE_STEPS), steps_of_generations(context)
    if steps % unit == 0 or 0 < context.whole("GRPOConfig.max_steps") < steps:
        return
    less, more = steps // unit * unit, -(-steps // unit) * unit
    nearest = less if less and steps - less <= more - steps else more
    other = more if nearest == less else less
    feeds, accumulation, iterations = micro_batches_fed(context), context.whole(ACCUMULATION), context.whole(ITERATIONS)
    yield context.wrong(
        f"checkpoints come after steps {_list_checkpoints(steps, unit)}, ..., not every {steps} steps",
        SAVE_STEPS,
        [
            f"a generation ends every {unit} optimizer steps: {feeds} micro-batches x num_iterations {iterations}"
            f" ({context.origin(ITERATIONS)}), {accumulation} in a step",
            "a checkpoint holds no completions; if it is due earlier, it waits until they are used up",
        ],
        nearest,
        severity="warning",
        fix=f"save_steps: {nearest}" + (f", or {other}" if other else ""),
    )


def _list_checkpoints(steps: int, unit: int) -> str:
    """The first steps that get a checkpoint: the end of each generation in which one was due."""
    ends: list[int] = []
    for _ in range(3):
        due = (ends[-1] if ends else 0) // steps * steps + steps
        ends.append(-(-due // unit) * unit)
    return ", ".join(map(str, ends))
