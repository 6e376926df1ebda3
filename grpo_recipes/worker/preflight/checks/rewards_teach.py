"""Right answers score higher than wrong ones.

What: each reward is tried on right answers, if the data has a column for them (solution, or else answer, ground_truth,
reference, target, label, expected, gold), on empty completions and on garbage. The right answer is the reference
unchanged, and also in tags if a format reward or every prompt names tags; the higher reward counts. Reported: a reward
that gives all of them the same, or None to all, except 0 if there is no right answer to try (rows for countdown, tests
or instructions have no answer); weights that are all zero; a weighted sum that is not greater for right answers than
for garbage.
Why: GRPO learns from differences within a group. A reward that is equal for all completions teaches nothing, and a
reward that is larger for garbage teaches garbage. Preflight cannot know whether your right answers look like the ones
it makes, so most of these findings are warnings.
Fix: look at one completion and its reward in the table that preflight prints. If the rewards are right and groups still
have no variance in training, grpo-run profile counts the rows that the model never or always solves.
Example: reward accuracy gives 0 to every completion, right, empty or garbage
"""

import math
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.worker.preflight._shared.reward_seen import (
    GARBAGE,
    GOLDS,
    OTHER,
    RewardSeen,
    by_case,
    fault,
    mean,
    record,
)
from grpo_recipes.worker.preflight._shared.seen import Seen
from grpo_recipes.worker.preflight.checks import completions_have_the_shape

ID = "PFL024"


def check(seen: Seen) -> Iterator[Finding]:
    if seen.data is None:
        return  # no reward was tried
    is_judged_by_itself = seen.tools is not None and (seen.tools.get_reward is not None or seen.tools.reward_problem)
    if not is_judged_by_itself and all(reward.weight == 0 for reward in seen.rewards):
        yield fault(
            "error",
            "the weight of every reward is 0",
            ("rewards",),
            because=("the reward of every completion is 0, so the model learns nothing",),
            fix="weight: 1.0",
        )
        return
    dead = [fault for reward in seen.rewards for fault in _constant(seen, reward)]
    yield from dead
    if not dead and any(reward.weight for reward in seen.rewards):
        yield from _upside_down(seen)


def _constant(seen: Seen, reward: RewardSeen) -> Iterator[Finding]:
    call = reward.judged
    if call is None or completions_have_the_shape.explains(reward):
        return
    values = {repr(value) for value in call.values}
    if len(values) > 1:
        return
    value = call.values[0]
    if value is None and all(_gives_nothing(other) for other in seen.rewards):
        return  # rewards_are_given reports rows without any reward
    if not value and value is not None and not seen.gold and _expects_more_than_garbage(seen, reward):
        return  # garbage deserves no more, and a right answer is not known
    kinds = ("right, " if seen.gold else "") + "empty or garbage"
    yield fault(
        "warning",
        f"reward {reward.name} gives {'no reward' if value is None else record(value)} to every completion, {kinds}",
        reward.key,
        because=(
            f"it was called with {len(call.values)} completions",
            f"right answers: {seen.gold}" if seen.gold else "the data has no column with right answers",
        ),
        fix=None if seen.gold else 'columns: {solution: "{{ ... }}"} under dataset, if the data has the answers',
    )


def _expects_more_than_garbage(seen: Seen, reward: RewardSeen) -> bool:
    """Whether a reward may be right to give garbage 0: it is shipped, or compares with columns."""
    own = set() if seen.data is None else set(seen.data.rows.column_names) - {"prompt"}
    return reward.kind == "shipped" or not own.isdisjoint(reward.parameters)


def _gives_nothing(reward: RewardSeen) -> bool:
    return reward.judged is not None and all(value is None for value in reward.judged.values)


def totals(seen: Seen) -> dict[str, float]:
    """Returns the weighted sum of mean rewards by kind of completion, over rewards that returned one."""
    found: dict[str, float] = {}
    for reward in seen.rewards:
        call = reward.judged
        for case, values in by_case(call).items() if call is not None else ():
            found[case] = found.get(case, 0.0) + reward.weight * (mean(values) or 0.0)
    return found


def _upside_down(seen: Seen) -> Iterator[Finding]:
    if not seen.gold or any(reward.judged is None for reward in seen.rewards):
        return
    found = [fault for reward in seen.rewards if seen.reference in reward.parameters for fault in _own(seen, reward)]
    yield from found
    if not found:
        yield from _sum(seen)


def _own(seen: Seen, reward: RewardSeen) -> Iterator[Finding]:
    """Yields functions that read the reference but do not reward it."""
    assert reward.judged is not None
    means = {case: mean(values) or 0.0 for case, values in by_case(reward.judged).items()}
    best = max(means[case] for case in GOLDS if case in means)
    worst = max((case for case in GARBAGE if case in means), key=means.__getitem__)
    if reward.weight > 0 and means[worst] >= best:
        yield fault(
            "warning",
            f"reward {reward.name} gives right answers {record(best)}, but {worst} {record(means[worst])}",
            reward.key,
            because=(f"it reads column {seen.reference}", f"right answers: {seen.gold}"),
            fix="check what it compares",
        )
    elif reward.weight < 0 and best > means[worst]:
        yield fault(
            "warning",
            f"reward {reward.name} gives right answers the most, and its weight is {reward.weight:g}",
            (*reward.key, "weight"),
            because=("a negative weight trains against it",),
            fix=f"weight: {-reward.weight:g}",
            patch=(Patch((*reward.key, "weight"), -reward.weight),),
        )


def _sum(seen: Seen) -> Iterator[Finding]:
    sums = totals(seen)
    best = max(sums[case] for case in GOLDS if case in sums)
    reads = any(seen.reference in reward.parameters for reward in seen.rewards)
    # Without a function that reads the reference, right answers score the same as those of other rows.
    garbage = [case for case in GARBAGE if case in sums and (reads or case != OTHER)]
    worst = max(garbage, key=sums.__getitem__)
    if sums[worst] >= best or math.isclose(sums[worst], best):  # 0.1 + 0.2 is more than 0.3 by rounding
        yield fault(
            "warning",
            f"right answers get {record(best)}, but {worst} completions get {record(sums[worst])}",
            ("rewards",),
            because=("both are the weighted sum of all rewards, a mean over the rows", f"right answers: {seen.gold}"),
            fix="check the weights, and the column that right answers are made from",
        )
