"""The right answers of reasoning-gym's tasks score 1.0.

What: the task's own scorer gives a row's answer less than 1.0, both unchanged and in the tags that `answer_in` asks
for. Rows without an answer, from tasks with several right answers, are left out.
Why: a model that answers correctly is not rewarded. Some scorers expect a different form than the task's own answer.
Fix: look at the row; use a different task, or a different config of it.
Example: the right answers of 3 of 32 rows score less than 1.0 by reasoning_gym
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, warning
from grpo_recipes.contract.findings.wording import join_items
from grpo_recipes.worker.preflight._shared.reward_seen import GOLDS, RewardSeen, record
from grpo_recipes.worker.preflight._shared.seen import Seen

ID = "RWD013"


def check(inputs: Seen) -> Iterator[Finding]:
    for reward in inputs.rewards:
        is_of_tasks = inputs.plan.rewards[reward.index].target == "reasoning_gym"
        if is_of_tasks and inputs.data is not None and inputs.reference == "answer":
            yield from _of_reward(inputs, reward)


def _of_reward(inputs: Seen, reward: RewardSeen) -> Iterator[Finding]:
    best: dict[int, float] = {}
    entries = () if reward.judged is None else zip(reward.judged.entries, reward.judged.values, strict=True)
    for (row, case), value in entries:
        if case in GOLDS:
            best[row] = max(value or 0.0, best.get(row, 0.0))
    rows = {} if inputs.data is None else {row: inputs.data.rows[inputs.sample[row]] for row in best}
    low = [row for row, value in best.items() if value < 1.0 and rows[row]["answer"] is not None]
    if not low or inputs.data is None:
        return
    numbers = [inputs.data.number(inputs.sample[row]) for row in low]
    shown = "; ".join(f"{rows[row]['task']}: {record(best[row])}" for row in low[:3])
    yield warning(
        f"the right answers of {len(low)} of {len(best)} rows score less than 1.0 by {reward.name}",
        reward.key,
        because=f"rows {join_items(numbers, 5)}, such as {shown}",
        fix="look at these rows; use a different task or config",
    )
