"""The environment can be reset for every row, and its get_reward works.

What: preflight resets one object with each row of the sample, as TRL does: `reset(**row)`, all columns and the prompt
by name. reset returns None, or a text that is added to the prompt's last message. Then preflight plays the turns on the
first row, and calls get_reward once, if it exists.
Why: an exception in either ends the training at the step that draws the row.
Fix: leave rows that lack what the environment needs out of the data; reset(self, **row) accepts unknown columns.
Example: environment Game cannot be reset for row 17: KeyError: 'board' (game.py:9: self.board = row["board"])
Source: trl 1.16.0 grpo_trainer.py (_generate_and_score_completions).
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.findings.wording import listed
from grpo_recipes.worker.preflight._shared.reward_seen import cut, fault
from grpo_recipes.worker.preflight._shared.seen import Rows, Seen
from grpo_recipes.worker.preflight._shared.tools_seen import ToolsSeen

ID = "PFL033"


def check(seen: Seen) -> Iterator[Finding]:
    if seen.tools is None or seen.data is None:
        return
    each = seen.tools_of or {"environment": seen.tools}
    for name, tools in each.items() if seen.plan.all_environments else ():
        one = seen.plan.environment_class or seen.plan.environment_classes[name]
        yield from _of_one(seen, seen.data, one.name, tools)


def _of_one(seen: Seen, data: Rows, name: str, tools: ToolsSeen) -> Iterator[Finding]:
    key = ("environments",) if seen.tools_of else ("environment",)
    failed = {reset.row: reset for reset in tools.resets if reset.error}
    if failed:
        rows = sorted(failed)
        first = failed[rows[0]]
        numbers = [data.number(seen.sample[row]) for row in rows]
        yield fault(
            "error",
            f"environment {name} cannot be reset for row {numbers[0]}: {cut(first.error, 200)}",
            key,
            because=(
                *((first.place,) if first.place else ()),
                f"{len(rows)} of {len({reset.row for reset in tools.resets})} rows: {listed(numbers, 5)}",
            ),
        )
    if tools.reward_problem:
        yield fault(
            "error",
            f"get_reward of environment {name} fails: {cut(tools.reward_problem, 300)}",
            key,
            because=("it was called once, after the played turns",),
        )


def of_unused(name: str, count: int) -> Finding:
    """Returns the note about an environment that no row names."""
    message, because = f"no row has the environment {name}", f"{count} rows were examined"
    fix = "remove it, or correct the column `environment` of its rows"
    return fault("warning", message, ("environments",), because=(because,), fix=fix)._replace(rule=ID)
