"""No prompt of the evaluation is also trained on.

What: prompts of the evaluation that equal prompts of the training data, but for case and white space. With an
environment, the columns that its reset gets have to be equal, too.
Why: the evaluation then measures memorisation.
Fix: a different split, or data without these rows.
Example: 100 of 100 prompts of the evaluation are also trained on
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, warning
from grpo_recipes.contract.findings.wording import join_items
from grpo_recipes.worker.preflight._shared.seen import Seen, content_of, tasks_of

ID = "PFL007"


def check(inputs: Seen) -> Iterator[Finding]:
    if inputs.data is None:
        return
    trained = {_plain(task) for task in (tasks_of(inputs.data, inputs.plan) if inputs.held_out else ())}
    for held_out in inputs.held_out:
        both = [index for index, task in enumerate(tasks_of(held_out, inputs.plan)) if _plain(task) in trained]
        if inputs.plan.all_environments:  # the environment supplies blank prompts
            both = [index for index in both if content_of(held_out.prompts[index][-1]).strip()]
        if both:
            name = held_out.where.rpartition(".")[2]
            of = "the evaluation" if name == held_out.where else name
            yield warning(
                f"{len(both)} of {len(held_out.prompts)} prompts of {of} are also trained on",
                (held_out.where,),
                because=f"of rows {join_items([held_out.number(index) for index in both], 5)} of {of}",
                fix="a different split or file, without the training rows",
            )


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold()
