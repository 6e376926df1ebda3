"""Right answers pass an evaluation, and wrong answers do not.

What: `evaluation.passes`, compared with the rewards of the tried completions. Reported: no right answer passes in any
row; a threshold of at least 10 times the highest reward of all completions, such as a percentage for a reward from 0 to
1; or, for pass@k, the right answers of other rows, which another reward pays less than right ones, pass in every row.
Why: pass@k, profiles and the rows that became right count what passes. With a reward for the form, they count
well-formed answers; with a threshold that right answers do not reach, they stay at 0.
Fix: the reward that compares with the right answer, and a threshold up to its value for a right answer.
Example: wrong answers pass: tag_format gives them 1, and at_least is 1
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, warning
from grpo_recipes.worker.preflight._shared.reward_seen import OTHER, RewardSeen, best_of_golds, by_row, record
from grpo_recipes.worker.preflight._shared.seen import Seen

ID = "PFL064"
TIMES = 10


def check(inputs: Seen) -> Iterator[Finding]:
    sets = () if inputs.plan.evaluation is None else inputs.plan.evaluation.sets
    for of_set in sets:
        passes = of_set.passes
        reward = next((each for each in inputs.rewards if passes is not None and each.name == passes.reward), None)
        if passes is None or reward is None or reward.judged is None:
            continue
        rows = [
            values for values in by_row(reward.judged).values() if any(value is not None for value in values.values())
        ]
        best = [best_of_golds(values) for values in rows]
        others = [values[OTHER] or 0.0 for values in rows if OTHER in values]
        reads = bool(inputs.gold) and inputs.reference in reward.parameters
        highest = max((value for row in rows for value in row.values() if value is not None), default=0.0)
        key = (*of_set.section.split("."), "passes")
        judges = [each.name for each in inputs.rewards if each is not reward and tells_apart(inputs, each)]
        if best and reads and max(best) < passes.at_least:
            yield warning(
                f"no right answer passes: {reward.name} gives them at most {record(max(best))}, and at_least is "
                f"{passes.at_least:g}",
                (*key, "at_least"),
                because=(f"right answers: {inputs.gold}", "what counts passing completions stays at 0"),
                fix=f"at_least: {max(best):g}" if max(best) > 0 else "a reward that pays right answers",
            )
        elif 0 < highest * TIMES <= passes.at_least:
            yield warning(
                f"no completion passes: {reward.name} gives at most {record(highest)}, and at_least is "
                f"{passes.at_least:g}",
                (*key, "at_least"),
                because=f"it was called with {len(reward.judged.values)} completions",
                fix=f"at_least: {highest:g}, or what the reward gives at most",
            )
        elif of_set.pass_at and judges and not tells_apart(inputs, reward) and _all_pass(others, passes.at_least):
            yield warning(
                f"wrong answers pass: {reward.name} gives them {record(min(others))}, and at_least "
                f"is {passes.at_least:g}",
                (*key, "reward"),
                because=(
                    f"{judges[0]} pays right answers more than those of other rows",
                    f"right answers: {inputs.gold}",
                ),
                fix=f"reward: {judges[0]}",
            )


def _all_pass(values: list[float], at_least: float) -> bool:
    return bool(values) and all(value >= at_least for value in values)


def tells_apart(inputs: Seen, reward: RewardSeen) -> bool:
    """Whether a reward reads the right answers, and pays them more than those of other rows."""
    rows = [] if reward.judged is None else [each for each in by_row(reward.judged).values() if OTHER in each]
    reads = bool(inputs.gold) and reward.weight > 0 and inputs.reference in reward.parameters
    return reads and bool(rows) and all(best_of_golds(row) > (row[OTHER] or 0.0) for row in rows)
