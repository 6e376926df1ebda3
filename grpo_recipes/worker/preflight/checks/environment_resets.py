"""The environment can be reset for every row, and judges the turns.

What: preflight resets one object with each row of the sample, as TRL does: `reset(**row)`, all columns and the prompt
by name. It returns None, or a text that is added to the prompt's last message. Then the turns are played on the first
row, and get_reward is called once, if it exists.
Why: an exception in either ends the training at the step that draws the row.
Fix: leave rows without what the environment needs out of the data; reset(self, **row) accepts columns that it does not
know.
Example: environment Game cannot be reset for row 17: KeyError: 'board' (game.py:9: self.board = row["board"])
Source: trl 1.16.0 grpo_trainer.py (_generate_and_score_completions).
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.findings.wording import listed
from grpo_recipes.worker.preflight._shared.reward_seen import cut, fault
from grpo_recipes.worker.preflight._shared.seen import Seen

ID = "PFL033"


def check(seen: Seen) -> Iterator[Finding]:
    environment = seen.plan.environment_class
    if seen.tools is None or environment is None or seen.data is None:
        return
    failed = {reset.row: reset for reset in seen.tools.resets if reset.error}
    if failed:
        rows = sorted(failed)
        first = failed[rows[0]]
        numbers = [seen.data.number(seen.sample[row]) for row in rows]
        yield fault(
            "error",
            f"environment {environment.name} cannot be reset for row {numbers[0]}: {cut(first.error, 200)}",
            ("environment",),
            because=(
                *((first.place,) if first.place else ()),
                f"{len(rows)} of {_tried(seen)} rows: {listed(numbers, 5)}",
            ),
        )
    if seen.tools.reward_problem:
        yield fault(
            "error",
            f"get_reward of environment {environment.name} fails: {cut(seen.tools.reward_problem, 300)}",
            ("environment",),
            because=("it was called once, after the played turns",),
        )


def _tried(seen: Seen) -> int:
    assert seen.tools is not None
    return len({reset.row for reset in seen.tools.resets})
