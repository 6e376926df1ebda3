"""The judge answers, and its answer has a score.

What: preflight fills the judge's prompt for each row that it examines, asks the judge once, with the right answer of a
row if the data has one, and shows the question, the answer and the score. It does not use cached answers. Reported: an
address where nothing answers, a key or a model that the endpoint refuses, a row with a null in the template, and an
answer without a score or with a score outside of judge.scale.
Why: a completion without the score leaves its group, and the guard failing_judge stops the run after its first step.
Fix: follow the message; ask for the score in a form that judge.score finds, such as "Score: 7".
Example: reward judge: its answer to row 12 has no score
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from grpo_recipes.contract.findings.finding import Finding, mistake
from grpo_recipes.worker.preflight._shared.seen import Seen

ID = "PFL039"
RANGE = re.compile(r"(?<![\w.-])(\d{1,3}) ?(?:to|and|-|\u2013) ?(\d{1,3})(?!\w|\.\d)")


def check(inputs: Seen) -> Iterator[Finding]:
    for judge in inputs.judges:
        path = ("rewards", judge.index, "judge")
        if judge.problem is not None:
            problem = judge.problem
            yield mistake(problem.message, path, because=problem.because, fix=problem.fix)
        elif judge.score is None and inputs.data is not None:
            yield mistake(
                f"reward {judge.name}: its answer to row {inputs.data.number(inputs.sample[0])} has no score",
                path,
                because=judge.why,
                fix=_scale_in(inputs.plan.rewards[judge.index].kwargs)
                or "a prompt that asks for only the number, or a judge.score that matches the answer",
            )


def _scale_in(judge: Mapping[str, Any]) -> str | None:
    """Returns the last scale that the judge's prompt names, such as "0 to 10", if the recipe has a different one."""
    named = [[int(low), int(high)] for low, high in RANGE.findall(judge["prompt"]) if int(low) < int(high)]
    if not named or judge["scale"] is None or named[-1] == [*judge["scale"]]:
        return None
    return f"scale: {named[-1]}, as the prompt asks"
