"""No prompt of the evaluation is also trained on.

What: prompts of the evaluation that equal prompts of the training data, character for character.
Why: the evaluation then measures memorisation.
Fix: a different split, or data without these rows.
Example: 100 of 100 prompts of the evaluation are also trained on
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.findings.wording import listed
from grpo_recipes.worker.preflight._shared.reward_seen import fault
from grpo_recipes.worker.preflight._shared.seen import Seen, content_of, prompt_as_text

ID = "PFL007"


def check(seen: Seen) -> Iterator[Finding]:
    if seen.data is None:
        return
    trained = {prompt_as_text(prompt) for prompt in (seen.data.prompts if seen.held_out else ())}
    for held_out in seen.held_out:
        both = [place for place, prompt in enumerate(held_out.prompts) if prompt_as_text(prompt) in trained]
        if seen.plan.all_environments:  # the environment supplies blank prompts
            both = [place for place in both if content_of(held_out.prompts[place][-1]).strip()]
        if both:
            name = held_out.where.rpartition(".")[2]
            of = "the evaluation" if name == held_out.where else name
            yield fault(
                "warning",
                f"{len(both)} of {len(held_out.prompts)} prompts of {of} are also trained on",
                (held_out.where,),
                because=(f"of rows {listed([held_out.number(place) for place in both], 5)} of {of}",),
                fix="a different split or file, without the training rows",
            )
