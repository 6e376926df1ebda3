"""The environment can be reset for every row, and its get_reward works.

What: preflight resets one object with each row of the sample, as TRL does: `reset(**row)`, all columns and the prompt
by name. reset returns None, or a text that is added to the prompt's last message. Then preflight plays the turns on the
first row, and calls get_reward once, if it exists. A note names numbers and texts of the object that differ after eight
resets with the same row. At the end the played object and a new one are reset with the same row: an attribute that
differs then is a note, and a get_reward that differs a warning.
Why: an exception in either ends the training at the step that draws the row. GRPO compares the completions
of a group, which is meant to have one task: with random numbers drawn in reset, each completion has a different one.
Fix: leave rows that lack what the environment needs out of the data; reset(self, **row) accepts unknown columns.
Example: environment Game cannot be reset for row 17: KeyError: 'board' (game.py:9: self.board = row["board"])
Source: trl's grpo_trainer.py (_generate_and_score_completions).
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, mistake, note, warning
from grpo_recipes.contract.findings.wording import join_items
from grpo_recipes.worker.preflight._shared.reward_seen import cut
from grpo_recipes.worker.preflight._shared.seen import Rows, Seen
from grpo_recipes.worker.preflight._shared.tools_seen import ToolsSeen

ID = "PFL033"
REWARD = "get_reward"


def check(inputs: Seen) -> Iterator[Finding]:
    if inputs.tools is None or inputs.data is None:
        return
    each = inputs.tools_of or {"environment": inputs.tools}
    for name, tools in each.items() if inputs.plan.all_environments else ():
        environment = inputs.plan.environment_class or inputs.plan.environment_classes[name]
        yield from _of_one(inputs, inputs.data, environment.name, tools)


def _of_one(inputs: Seen, data: Rows, name: str, tools: ToolsSeen) -> Iterator[Finding]:
    key = ("environments",) if inputs.tools_of else ("environment",)
    failed = {reset.row: reset for reset in tools.resets if reset.error}
    if failed:
        rows = sorted(failed)
        first = failed[rows[0]]
        numbers = [data.number(inputs.sample[row]) for row in rows]
        yield mistake(
            f"environment {name} cannot be reset for row {numbers[0]}: {cut(first.error, 200)}",
            key,
            because=(
                first.place,
                f"{len(rows)} of {len({reset.row for reset in tools.resets})} rows: {join_items(numbers, 5)}",
            ),
        )
    for attribute, values in tools.varying.items():
        yield note(
            f"environment {name}: {attribute} differs after resets with the same row: {', '.join(values[:3])}",
            key,
            because="the completions of a group get different tasks, and GRPO compares them",
            fix="make it from the row, or from random.Random(a seed in the row)",
        )
    for attribute, (fresh, played) in tools.leftovers.items():
        if attribute != REWARD and REWARD in tools.leftovers:
            continue  # the cause of the other reward
        yield mistake(
            f"environment {name}: after a reset, {attribute} is {cut(played, 40)} where turns were played before, and "
            f"{cut(fresh, 40)} in a new object",
            key,
            because="trl resets the same object for every completion, so the next episode begins with it",
            fix="set it in reset",
            severity="warning" if attribute == REWARD else "note",
        )
    if tools.reward_problem:
        yield mistake(
            f"get_reward of environment {name} fails: {cut(tools.reward_problem, 300)}",
            key,
            because="it was called once, after the played turns",
        )


def of_unused(name: str, count: int) -> Finding:
    """Returns the note about an environment that no row names."""
    message, because = f"no row has the environment {name}", f"{count} rows were examined"
    fix = "remove it, or correct the column `environment` of its rows"
    return warning(message, ("environments",), because=because, fix=fix)._replace(rule=ID)
