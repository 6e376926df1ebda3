"""The right answers of reasoning-gym's tasks score 1.0.

What: the task's own scorer gives a row's answer less than 1.0, both unchanged and in the tags that `answer_in` asks
for. Rows without an answer, from tasks with several right answers, are left out.
Why: a model that answers correctly is not rewarded. Some scorers expect a different form than the task's own answer.
Fix: look at the row; use a different task, or a different config of it.
Example: the right answers of 3 of 32 rows score less than 1.0 by reasoning_gym
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.findings.wording import listed
from grpo_recipes.worker.preflight._shared.reward_seen import GOLDS, RewardSeen, fault, record
from grpo_recipes.worker.preflight._shared.seen import Seen

ID = "RWD013"


def check(seen: Seen) -> Iterator[Finding]:
    for reward in seen.rewards:
        is_of_tasks = seen.plan.rewards[reward.index].target == "reasoning_gym"
        if is_of_tasks and seen.data is not None and seen.reference == "answer":
            yield from _of_reward(seen, reward)


def _of_reward(seen: Seen, reward: RewardSeen) -> Iterator[Finding]:
    best: dict[int, float] = {}
    entries = () if reward.judged is None else zip(reward.judged.entries, reward.judged.values, strict=True)
    for (row, case), value in entries:
        if case in GOLDS:
            best[row] = max(value or 0.0, best.get(row, 0.0))
    rows = {} if seen.data is None else {place: seen.data.rows[seen.sample[place]] for place in best}
    low = [place for place, value in best.items() if value < 1.0 and rows[place]["answer"] is not None]
    if not low or seen.data is None:
        return
    numbers = [seen.data.number(seen.sample[place]) for place in low]
    shown = "; ".join(f"{rows[place]['task']}: {record(best[place])}" for place in low[:3])
    yield fault(
        "warning",
        f"the right answers of {len(low)} of {len(best)} rows score less than 1.0 by {reward.name}",
        reward.key,
        because=(f"rows {listed(numbers, 5)}, such as {shown}",),
        fix="look at these rows; use a different task or config",
    )
