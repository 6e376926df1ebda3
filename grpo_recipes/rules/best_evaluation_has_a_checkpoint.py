"""The best evaluation has a checkpoint, and there are at least two evaluations to choose from.

`keep_best` selects the checkpoint of the best evaluation, so each evaluation needs a checkpoint. Without save_steps in
the recipe, it follows every_steps. A checkpoint is exact only once a generation's completions are used up; one that is
due earlier is delayed, and would then belong to a later step than the evaluation. `stop_after` counts evaluations
during training. The evaluation after a warm start counts for both, and has its checkpoint. `push_to_hub` uploads what
the trainer holds, the model of the last step.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.batch_cut import steps_of_generations
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules.data_fills_a_generation import steps_at_most

ID = "EVL005"
EVERY, KEEP, STOP = "evaluation.every_steps", "evaluation.keep_best", "evaluation.stop_after"
SAVE_STEPS, PUSH = "GRPOConfig.save_steps", "GRPOConfig.push_to_hub"


def check(context: Context) -> Iterator[Finding]:
    if not context.has_section("evaluation"):
        return
    keeps, stops = context.value(KEEP) is True, context.value(STOP) is not None
    if not keeps and not stops:
        return
    every = context.whole(EVERY)
    if every == 0:
        what, key = ("keep_best", KEEP) if keeps else ("stop_after", STOP)
        message = f"{what} has no effect: nothing is evaluated during training"
        because = f"every_steps is 0 ({context.origin(EVERY)}): evaluation runs only before and after training"
        yield context.finding(message, key, because, fix="every_steps: 100, or another interval")
    else:
        yield from _too_few(context, every)
        if keeps:
            yield from _without_checkpoint(context, every)
    if keeps and context.value(PUSH) is True:
        message = "push_to_hub would push the model of the last step, not the best one"
        because = "the trainer pushes the weights that it holds at the end of training"
        yield context.wrong(
            message, PUSH, because, fix="remove push_to_hub; grpo-run export RUNDIR --push NAME uploads final/"
        )


def _too_few(context: Context, every: int) -> Iterator[Finding]:
    """Findings for too few evaluations to choose from, or to stop early."""
    bound, stop = steps_at_most(context), context.value(STOP)
    if bound is None:
        return
    steps, origin = bound
    warms_up = context.has_section("warm_start") and context.value("evaluation.at_start") is True
    number = -(-steps // every) + warms_up
    because = [f"{steps} steps ({origin}), every_steps {every} ({context.origin(EVERY)})"]
    fix = "a smaller every_steps, or more steps"
    if context.value(KEEP) is True and number == 1:
        what = "keep_best has only one evaluation to choose from"
        yield context.finding(what, EVERY, because, fix=fix, severity="warning")
    if isinstance(stop, int) and number <= stop:
        what = f"stop_after {stop} never stops training: it has only {number} evaluation{'s' * (number > 1)}"
        yield context.finding(what, STOP, because, fix=fix, severity="warning")


def _without_checkpoint(context: Context, every: int) -> Iterator[Finding]:
    unit, saves = steps_of_generations(context), context.whole(SAVE_STEPS)
    if every % unit:
        whole = -(-every // unit) * unit
        because = f"checkpoints can only be written where a generation ends, every {unit} optimizer steps"
        yield context.wrong(f"the evaluation at step {every} has no checkpoint", EVERY, because, whole)
    elif saves == 0 or every % saves:
        message = f"the evaluation at step {every} has no checkpoint"
        because = f"save_steps is {saves} ({context.origin(SAVE_STEPS)}), every_steps {every} ({context.origin(EVERY)})"
        yield context.wrong(message, SAVE_STEPS, because, every, fix=f"save_steps: {every}, or a divisor of it")
