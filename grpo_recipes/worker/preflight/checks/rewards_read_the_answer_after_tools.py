"""Rewards read the answer that follows tool calls.

What: a function that rewards the right answer alone, but no completion in which the right answer follows tool calls.
The calls are those of preflight.turns, even if these end with something else.
Why: with tools, a completion is a list of messages. completion[0] is the first tool call, whose content is empty; the
answer is completion[-1].
Fix: read completion[-1]["content"].
Example: reward right pays right answers, but none that follows a tool call
Source: trl's grpo_trainer.py (_generate_and_score_completions).
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, warning
from grpo_recipes.worker.preflight._shared.reward_seen import by_case, form_of_right
from grpo_recipes.worker.preflight._shared.seen import Seen
from grpo_recipes.worker.preflight._shared.tools_seen import PLAYED, RIGHT_AFTER_CALLS

ID = "PFL059"


def check(inputs: Seen) -> Iterator[Finding]:
    if inputs.tools is None:
        return
    ends_right = inputs.tools.answer is None and inputs.tools.has_end
    for reward in inputs.rewards:
        values = {} if reward.judged is None else by_case(reward.judged)
        before, after = values.get(form_of_right(values), ()), values.get(PLAYED if ends_right else RIGHT_AFTER_CALLS)
        if reward.kind != "shipped" and after and any((value or 0.0) > 0 for value in before) and not any(after):
            yield warning(
                f"reward {reward.name} pays right answers, but none that follows a tool call",
                reward.key,
                because="with tools, completion[0] is the call, and the answer is completion[-1]",
                fix='read completion[-1]["content"]',
            )
