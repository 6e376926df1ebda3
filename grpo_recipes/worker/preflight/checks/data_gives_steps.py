"""The rows fill at least one generation, and every row is trained on.

What: TRL draws prompts in generations of prompts_per_step (times grpo.optimizer_steps_per_generation) and drops the
remaining rows at the end of an epoch. With fewer rows than one generation all are dropped: with max_steps the run ends
"completed" after 0 steps with exit 0; without it transformers raises "args.max_steps must be set to a positive value".
Without shuffle_dataset the same last rows are dropped in every epoch. More than 100 epochs are a warning.
Why: such a run saves the model it started from, without an error. Public configuration files for GRPO train for 1 to 10
epochs (see TRN013); after 100 the model knows its rows by heart.
Fix: fewer prompts_per_step, or more rows.
Example: 10 rows are fewer than the 16 prompts of one generation: the run would end after 0 steps
Sources: trl's trainer/utils.py (RepeatSampler), transformers' trainer.py (set_initial_training_values,
"There seems not to be a single sample in your epoch_iterator"); reproduced with recipes/quickstart.yaml, max_rows 10.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, mistake, note, warning
from grpo_recipes.worker.preflight._shared.seen import Seen
from grpo_recipes.worker.preflight._shared.trl_source import drops_incomplete_generations

ID = "PFL002"
MOST_EPOCHS = 100


def check(inputs: Seen) -> Iterator[Finding]:
    if inputs.data is None or inputs.plan.sources or not drops_incomplete_generations():
        return  # a mixture starts over with a source that is used up
    options, total = inputs.options, inputs.data.total
    size = options.batch.prompts
    if total < size:
        ends = "the run would end as completed after 0 steps" if options.max_steps else "the trainer raises ValueError"
        yield mistake(
            f"{total} rows are fewer than the {size} prompts of one generation: {ends}",
            ("training", "prompts_per_step"),
            because="trl drops the prompts that do not fill a generation at the end of each epoch",
            fix=f"prompts_per_step: {total}, or less; or more rows" if total else None,
        )
    elif (epochs := _epochs(inputs)) > MOST_EPOCHS:
        yield warning(
            f"{epochs:.0f} epochs of {total} rows: the model learns them by heart",
            ("training", "max_steps" if options.max_steps else "num_train_epochs"),
            because=(f"an epoch has {options.steps_per_epoch(total)} steps", "usual runs have 1 to 10 epochs"),
            fix="fewer steps, or more rows",
        )
    elif total % size and not options.shuffled and _epochs(inputs) > 1:
        yield note(
            f"the last {total % size} of {total} rows are never trained on",
            ("training", "shuffle_dataset"),
            because=f"a generation has {size} prompts, and without shuffling each epoch drops the same last rows",
            fix="shuffle_dataset: true",
        )


def _epochs(inputs: Seen) -> float:
    assert inputs.data is not None
    if inputs.options.max_steps is None:
        return inputs.options.epochs
    return inputs.options.max_steps / max(1, inputs.options.steps_per_epoch(inputs.data.total))
