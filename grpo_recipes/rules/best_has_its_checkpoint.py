"""The best evaluation has a checkpoint, and there is more than one to choose from.

`keep_best` hands over the checkpoint of the best evaluation, so one is written at each. Where save_steps is not said it
is every_steps. A checkpoint is exact only where the completions of a generation are used up; one that is due before
waits for that, and would be another step's than the evaluation. `stop_after` counts evaluations during the training.
What `push_to_hub` sends is what the trainer holds, the model of the last step.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.cut import steps_of_generations

ID = "EVL005"
EVERY, KEEP, STOP = "evaluation.every_steps", "evaluation.keep_best", "evaluation.stop_after"
MAX_STEPS, SAVE_STEPS, PUSH = "GRPOConfig.max_steps", "GRPOConfig.save_steps", "GRPOConfig.push_to_hub"


def check(context: Context) -> Iterator[Finding]:
    if not context.has_section("evaluation"):
        return
    keeps, stops = context.value(KEEP) is True, context.value(STOP) is not None
    if not keeps and not stops:
        return
    every = context.whole(EVERY)
    if every == 0:
        what, key = ("the best evaluation", KEEP) if keeps else ("evaluations without a better one", STOP)
        yield context.finding(
            ID,
            f"{what} cannot be told: nothing is evaluated during the training",
            key,
            because=[f"every_steps is 0 ({context.origin(EVERY)}): only before the first step and after the last one"],
            fix="every_steps: 100, or whatever is worth an evaluation",
        )
    else:
        yield from _too_few(context, every)
        if keeps:
            yield from _without_checkpoint(context, every)
    if keeps and context.value(PUSH) is True:
        yield context.finding(
            ID,
            "the hub would get the model of the last step, not the best one",
            PUSH,
            because=["the trainer pushes the weights that it holds when the training ends"],
            fix="remove push_to_hub; grpo-run export RUNDIR --push NAME sends what final/ holds",
            patch=[Patch(("trl", "push_to_hub"), remove=True)],
        )


def _too_few(context: Context, every: int) -> Iterator[Finding]:
    """Where the evaluations of the whole training are too few to choose from, or for an end before the last one."""
    steps, stop = context.whole(MAX_STEPS), context.value(STOP)
    if steps <= 0:
        return
    number = -(-steps // every)
    because = [f"{steps} steps ({context.origin(MAX_STEPS)}), every_steps {every} ({context.origin(EVERY)})"]
    fix = "a smaller every_steps, or more steps"
    if context.value(KEEP) is True and number == 1:
        what = "there is one evaluation to choose the best from"
        yield context.finding(ID, what, EVERY, because=because, fix=fix, severity="warning")
    if isinstance(stop, int) and number <= stop:
        what = (
            f"the training never ends early: it has {number} evaluation{'s' * (number > 1)}, and stop_after is {stop}"
        )
        yield context.finding(ID, what, STOP, because=because, fix=fix, severity="warning")


def _without_checkpoint(context: Context, every: int) -> Iterator[Finding]:
    unit, saves = steps_of_generations(context), context.whole(SAVE_STEPS)
    if every % unit:
        whole = -(-every // unit) * unit
        yield context.finding(
            ID,
            f"the evaluation at step {every} has no checkpoint",
            EVERY,
            because=[f"a generation ends every {unit} optimizer steps, and checkpoints come there"],
            fix=f"every_steps: {whole}",
            patch=[Patch(("evaluation", "every_steps"), whole)],
        )
    elif saves == 0 or every % saves:
        yield context.finding(
            ID,
            f"the evaluation at step {every} has no checkpoint",
            SAVE_STEPS,
            because=[
                f"save_steps is {saves} ({context.origin(SAVE_STEPS)}), every_steps {every} ({context.origin(EVERY)})"
            ],
            fix=f"save_steps: {every}, or a part of it",
            patch=[Patch(("training", "save_steps"), every)],
        )
