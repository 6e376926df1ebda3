"""The rows fill at least one generation, and every row is trained on.

What: TRL draws prompts in generations of prompts_per_step (times grpo.optimizer_steps_per_generation) and drops the
remaining rows at the end of an epoch. With fewer rows than one generation all are dropped: with max_steps the run ends
"completed" after 0 steps with exit 0; without it transformers raises "args.max_steps must be set to a positive value".
Without shuffle_dataset the same last rows are dropped in every epoch.
Why: such a run saves the model it started from, without an error.
Fix: fewer prompts_per_step, or more rows.
Example: 10 rows are fewer than the 16 prompts of one generation: the run would end after 0 steps
Sources: trl 1.16.0 trainer/utils.py (RepeatSampler), transformers 5.23.0 trainer.py (set_initial_training_values,
"There seems not to be a single sample in your epoch_iterator"); reproduced with recipes/quickstart.yaml, max_rows 10.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.worker.preflight._shared.reward_seen import fault
from grpo_recipes.worker.preflight._shared.seen import Seen
from grpo_recipes.worker.preflight._shared.tokens import drops_incomplete_generations

ID = "PFL002"


def check(seen: Seen) -> Iterator[Finding]:
    if seen.data is None or seen.plan.sources or not drops_incomplete_generations():
        return  # a mixture starts over with a source that is used up
    options, total = seen.options, seen.data.total
    size = options.batch.prompts
    if total < size:
        ends = "the run would end as completed after 0 steps" if options.max_steps else "the trainer raises ValueError"
        yield fault(
            "error",
            f"{total} rows are fewer than the {size} prompts of one generation: {ends}",
            ("training", "prompts_per_step"),
            because=("trl drops the prompts that do not fill a generation at the end of each epoch",),
            fix=f"prompts_per_step: {total}, or less; or more rows" if total else None,
        )
    elif total % size and not options.shuffled and _epochs(seen) > 1:
        yield fault(
            "note",
            f"the last {total % size} of {total} rows are never trained on",
            ("training", "shuffle_dataset"),
            because=(f"a generation has {size} prompts, and without shuffling each epoch drops the same last rows",),
            fix="shuffle_dataset: true",
        )


def _epochs(seen: Seen) -> float:
    assert seen.data is not None
    if seen.options.max_steps is None:
        return seen.options.epochs
    return seen.options.max_steps / max(1, seen.options.steps_per_epoch(seen.data.total))
