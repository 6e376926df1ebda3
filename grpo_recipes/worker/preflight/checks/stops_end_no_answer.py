"""No stop string ends an answer before it is complete.

What: a stop string inside of every right answer that preflight builds in the tags of a format reward or of the prompts,
if a reward pays that answer.
Why: generation ends at the stop string, so the model never gives the rest: every completion is incomplete, and the
reward for a complete one is never paid.
Fix: remove the string from generation.stop, or stop at the last tag.
Example: stop '</think>' ends right answers before they are complete
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, warning
from grpo_recipes.worker.preflight._shared.reward_seen import GOLD_IN_TAGS, by_case, cut, mean
from grpo_recipes.worker.preflight._shared.seen import Seen

ID = "PFL054"


def check(inputs: Seen) -> Iterator[Finding]:
    texts = inputs.trial_texts.get(GOLD_IN_TAGS, [])
    calls = [reward.judged for reward in inputs.rewards if reward.weight > 0 and reward.judged is not None]
    if not texts or not any((mean(by_case(call).get(GOLD_IN_TAGS, [])) or 0.0) > 0 for call in calls):
        return
    for stop in () if inputs.ends is None else inputs.ends.stops:
        if all(text.partition(stop)[2].strip() for text in texts):
            rest = cut(texts[0].partition(stop)[2].strip(), 60)
            yield warning(
                f"stop {stop!r} ends right answers before they are complete",
                ("generation", "stop"),
                because=(f"after it, a right answer continues with {rest!r}", "generation ends at a stop string"),
                fix=f"remove {stop!r} from generation.stop, or stop at the last tag of the answer",
            )
