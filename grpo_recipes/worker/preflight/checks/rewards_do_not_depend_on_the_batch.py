"""The reward of a completion does not depend on the completions of other prompts.

What: the completions of the first row, scored alone and together with those of the other rows.
Why: a rank or a mean over the batch changes with the number of processes and with prompts_per_step, and with how hard
the other prompts are. TRL compares completions within a group anyway.
Fix: score each completion by itself, or compare it with those of the same prompt.
Example: reward ranked gives 8 of 8 completions a different value if other prompts are scored with them
"""

import math
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, warning
from grpo_recipes.worker.preflight._shared.reward_seen import record
from grpo_recipes.worker.preflight._shared.seen import Seen
from grpo_recipes.worker.preflight.checks import rewards_repeat_themselves

ID = "PFL067"
NOISE = 1e-4
"""Products of matrices differ by less with the size of the batch."""


def check(inputs: Seen) -> Iterator[Finding]:
    if any(rewards_repeat_themselves.check(inputs)):
        return
    for reward in inputs.rewards:
        alone, together = reward.call("one row again"), reward.judged
        if alone is None or alone.kind != "values" or together is None or len(together.values) == len(alone.values):
            continue
        each = zip(alone.values, together.values, strict=False)
        pairs = [(a, b) for a, b in each if not _is_equal(a, b)]
        if pairs:
            yield warning(
                f"reward {reward.name} gives {len(pairs)} of {len(alone.values)} completions a different value if "
                "other prompts are scored with them",
                reward.key,
                because=f"the first got {record(pairs[0][0])} alone, then {record(pairs[0][1])}",
                fix="score each completion by itself, or compare it with those of the same prompt",
            )


def _is_equal(value: float | None, other: float | None) -> bool:
    if value is None or other is None:
        return value is other
    return math.isclose(value, other, rel_tol=NOISE, abs_tol=NOISE)
