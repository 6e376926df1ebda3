"""Rewards read the answer that follows tool calls.

What: a function that rewards the right answer alone, but none in the played completion, in which the right answer
follows tool calls.
Why: with tools, a completion is a list of messages. completion[0] is the first tool call, whose content is empty; the
answer is completion[-1].
Fix: read completion[-1]["content"].
Example: reward right pays right answers, but none that follows a tool call
Source: trl's grpo_trainer.py (_generate_and_score_completions).
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, warning
from grpo_recipes.worker.preflight._shared.reward_seen import GOLDS, by_case
from grpo_recipes.worker.preflight._shared.seen import Seen
from grpo_recipes.worker.preflight._shared.tools_seen import PLAYED

ID = "PFL059"


def check(inputs: Seen) -> Iterator[Finding]:
    if inputs.tools is None or inputs.tools.answer is not None or not inputs.tools.has_end:
        return
    for reward in inputs.rewards:
        values = {} if reward.judged is None else by_case(reward.judged)
        best = max((value or 0.0 for case in GOLDS for value in values.get(case, ())), default=0.0)
        if reward.kind != "shipped" and PLAYED in values and best > 0 and not any(values[PLAYED]):
            yield warning(
                f"reward {reward.name} pays right answers, but none that follows a tool call",
                reward.key,
                because="with tools, completion[0] is the call, and the answer is completion[-1]",
                fix='read completion[-1]["content"]',
            )
