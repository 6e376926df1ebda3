"""A reward gives the same completion the same value.

What: two calls with the same completions in one process.
Why: GRPO takes noise in the reward for a difference between completions. It divides by the standard deviation of the
group, so a group of equal completions with a little noise has as much effect as a group of right and wrong ones. The
run also cannot be reproduced.
Fix: no random numbers, no sets or hashes of texts with a changing order; a judge model at temperature 0.
Example: reward judge gave 12 of 192 completions a different value when it was called again
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, warning
from grpo_recipes.worker.preflight._shared.reward_seen import record
from grpo_recipes.worker.preflight._shared.seen import Seen

ID = "PFL026"


def check(inputs: Seen) -> Iterator[Finding]:
    for reward in inputs.rewards:
        first, again = reward.judged, reward.call("again")
        if first is None or again is None or again.kind != "values":
            continue
        pairs = [(a, b) for a, b in zip(first.values, again.values, strict=True) if a != b]
        if pairs:
            yield warning(
                f"reward {reward.name} gave {len(pairs)} of {len(first.values)} completions a different value when it "
                "was called again",
                reward.key,
                because=f"the first got {record(pairs[0][0])}, then {record(pairs[0][1])}",
                fix="no random numbers; a judge model at temperature 0",
            )
