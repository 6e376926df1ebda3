r"""Right answers score higher than wrong ones.

What: each reward is tried on right answers, if the data has a column for them (solution, or else answer, ground_truth,
reference, target, label, expected, gold), on empty completions and on garbage. Without such a column, the text of the
only column that a function reads and that no prompt contains is tried, or the JSON object of its columns if the prompts
ask for one; it counts as right if a reward pays it most, and is reported if a reward likes it least. The right answer
is the reference unchanged, in tags if a format reward or every prompt names tags, in \boxed{} for accuracy, and its end
after ####; the highest reward counts. If the prompt begins the answer, as chat templates do with <think>, the
completions are what follows. Reported: a reward that looks for this beginning, which only a parameter `prefills` has; a
reward that gives all of them the same, or None to all, except 0 if there is no right answer to try (rows for countdown,
tests or instructions have no answer); weights that are all zero; a weighted sum that is not greater for right answers
than for garbage. A function that pays no right answer is called with a few rows again, with numbers as text and text as
numbers, which shows a comparison of both.
Why: GRPO learns from differences within a group. A reward that is equal for all completions teaches nothing, and a
reward that is larger for garbage teaches garbage. Preflight cannot know whether your right answers look like the ones
it makes, so most of these findings are warnings.
Fix: look at one completion and its reward in the table that preflight prints. If the rewards are right and groups still
have no variance in training, grpo-run profile counts the rows that the model never or always solves.
Example: reward accuracy gives 0 to every completion, right, empty or garbage
"""

import math
import re
from collections.abc import Iterator
from typing import Any

from grpo_recipes.contract.findings.finding import Finding, Patch, mistake, warning
from grpo_recipes.contract.findings.wording import join_items
from grpo_recipes.worker.preflight._shared.reward_seen import (
    GARBAGE,
    GOLD,
    GOLDS,
    OTHER,
    PREFILLED,
    RewardSeen,
    by_case,
    mean,
    pays_golds,
    record,
)
from grpo_recipes.worker.preflight._shared.seen import Seen
from grpo_recipes.worker.preflight.checks import completions_have_the_shape, rewards_catch_no_mistakes

ID = "PFL024"
NUMBER = re.compile(r"-?\d+(\.\d+)?")


def check(inputs: Seen) -> Iterator[Finding]:
    if inputs.data is None:
        return  # no reward was tried
    is_judged_by_itself = (tools := inputs.tools) is not None and (tools.get_reward is not None or tools.reward_problem)
    if not is_judged_by_itself and all(reward.weight == 0 for reward in inputs.rewards):
        yield mistake(
            "the weight of every reward is 0",
            ("rewards",),
            because="the reward of every completion is 0, so the model learns nothing",
            fix="weight: 1.0",
        )
        return
    dead = [
        fault for reward in inputs.rewards for fault in (_rewards_prefill(inputs, reward) or _constant(inputs, reward))
    ]
    yield from dead
    if not dead and any(reward.weight for reward in inputs.rewards):
        yield from _upside_down(inputs)
    for reward in inputs.rewards:
        if reward.name in inputs.disliked:
            yield _disliked(inputs, reward)


def _constant(inputs: Seen, reward: RewardSeen) -> Iterator[Finding]:
    call = reward.judged
    if call is None or completions_have_the_shape.explains(reward) or rewards_catch_no_mistakes.mistakes(reward):
        return
    given = zip(call.entries, call.values, strict=True)
    if len({repr(value) for (_, case), value in given if case != PREFILLED}) > 1:
        return
    value = call.values[0]
    if value is None and _all_give_nothing(inputs):
        return  # rewards_are_given reports rows without any reward
    if not value and value is not None and not inputs.gold and _expects_more_than_garbage(inputs, reward):
        return  # garbage deserves no more, and a right answer is not known
    kinds = ("right, " if inputs.gold else "") + "empty or garbage"
    yield warning(
        f"reward {reward.name} gives {'no reward' if value is None else record(value)} to every completion, {kinds}",
        reward.key,
        because=(
            f"it was called with {len(call.values)} completions",
            f"right answers: {inputs.gold}" if inputs.gold else "the data has no column with right answers",
            _paid_retyped(inputs, reward),
        ),
        fix=_fix_of_unpaid(inputs, reward),
    )


def _rewards_prefill(inputs: Seen, reward: RewardSeen) -> list[Finding]:
    """Returns the finding for a user's reward that looks for what the prompt already contains."""
    if reward.judged is None or reward.kind == "shipped":
        return []
    means = {case: mean(values) or 0.0 for case, values in by_case(reward.judged).items()}
    others = max((value for case, value in means.items() if case != PREFILLED), default=0.0)
    if PREFILLED not in means or means[PREFILLED] <= others:
        return []
    prefill = next(filter(None, inputs.prefills))
    return [
        warning(
            f"reward {reward.name} gives at most {record(others)}, but {record(means[PREFILLED])} behind {prefill!r}",
            reward.key,
            because=(
                f"the prompt ends with {prefill!r}, which the model continues",
                "trl passes to rewards only what the model writes after that",
            ),
            fix="{name: tag_format}, which judges both, or your own function with the parameter prefills=None"
            if reward.kind == "package"
            else "add a parameter prefills=None to the function, and judge prefill + completion",
        )
    ]


def _paid_retyped(inputs: Seen, reward: RewardSeen) -> str:
    """Returns that a reward would pay right answers if its columns had other types; "" if it would not."""
    if not inputs.reference or not pays_golds(reward.retyped):
        return ""
    is_text = isinstance(_first_row(inputs).get(inputs.reference), str)
    return f"it pays them if {inputs.reference} is passed as {'a number' if is_text else 'text'}"


def _first_row(inputs: Seen) -> dict[str, Any]:
    return {} if inputs.data is None or not inputs.sample else inputs.data.rows[inputs.sample[0]]


def _fix_of_unpaid(inputs: Seen, reward: RewardSeen) -> str:
    if not inputs.gold:
        return 'columns: {solution: "{{ ... }}"} under dataset, if the data has the answers'
    first = _first_row(inputs)
    for name in sorted(first, key=lambda name: name != inputs.reference):
        is_number = isinstance(value := first[name], int | float) and not isinstance(value, bool)
        if reward.kind == "python" and is_number and name in (inputs.reference, *reward.parameters):
            text = f'columns: {{{name}: "{{{{ {name} }}}}"}} under dataset, which makes it text'
            return f"{name} is the number {value}, which equals no text: {text}; or compare it with str({name})"
    if unknown := inputs.unknown_names.get(reward.name):
        names = join_items([name for name in first if name != "prompt"])
        return f"{reward.name} reads {join_items(unknown)}, which the rows lack; their columns are {names}"
    hint, gold = "", str(first.get(inputs.reference or "", ""))
    if reward.kind == "python" and isinstance(first.get(inputs.reference or ""), str) and NUMBER.fullmatch(gold):
        hint = f"{inputs.reference} is the text {gold!r}, which equals no number; "
    return f"{hint}compare a right answer with what {reward.name} looks for; both are shown above"


def _expects_more_than_garbage(inputs: Seen, reward: RewardSeen) -> bool:
    """Whether a reward may be right to give garbage 0: it is shipped, or compares with columns."""
    own = set() if inputs.data is None else set(inputs.data.rows.column_names) - {"prompt"}
    return reward.kind == "shipped" or not own.isdisjoint(reward.parameters)


def _all_give_nothing(inputs: Seen) -> bool:
    calls = [reward.judged for reward in inputs.rewards]
    return all(call is not None and {*call.values} == {None} for call in calls)


def totals(inputs: Seen) -> dict[str, float]:
    """Returns the weighted sum of mean rewards by kind of completion, over rewards that returned one."""
    sums: dict[str, float] = {}
    for reward in inputs.rewards:
        call = reward.judged
        for case, values in by_case(call).items() if call is not None else ():
            sums[case] = sums.get(case, 0.0) + reward.weight * (mean(values) or 0.0)
    return sums


def _upside_down(inputs: Seen) -> Iterator[Finding]:
    if not inputs.gold or any(reward.judged is None for reward in inputs.rewards) or _all_give_nothing(inputs):
        return
    readers = [reward for reward in inputs.rewards if inputs.reference in reward.parameters]
    faults = [fault for reward in readers for fault in _own(inputs, reward)]
    yield from faults
    if not faults:
        yield from _sum(inputs)


def _own(inputs: Seen, reward: RewardSeen) -> Iterator[Finding]:
    """Yields functions that read the reference but do not reward it."""
    assert reward.judged is not None
    given = {case: mean(values) for case, values in by_case(reward.judged).items()}
    means = {case: value or 0.0 for case, value in given.items()}
    best = max(means[case] for case in GOLDS if case in means)
    worst = max((case for case in GARBAGE if case in means), key=means.__getitem__)
    if reward.weight > 0 and means[worst] >= best:
        shown = record(best) if any(given.get(case) is not None for case in GOLDS) else "no reward"
        yield warning(
            f"reward {reward.name} gives right answers {shown}, but {worst} {record(given[worst])}",
            reward.key,
            because=(
                f"it reads column {inputs.reference}",
                f"right answers: {inputs.gold}",
                other := _paid_retyped(inputs, reward),
            ),
            fix=_fix_of_unpaid(inputs, reward) if other else "check what it compares",
        )
    elif reward.weight < 0 and best > means[worst]:
        yield warning(
            f"reward {reward.name} gives right answers the most, and its weight is {reward.weight:g}",
            (*reward.key, "weight"),
            because="a negative weight trains against it",
            fix=f"weight: {-reward.weight:g}",
            patch=(Patch((*reward.key, "weight"), -reward.weight),),
        )


def _disliked(inputs: Seen, reward: RewardSeen) -> Finding:
    column = inputs.disliked[reward.name]
    assert reward.judged is not None
    means = {case: mean(values) for case, values in by_case(reward.judged).items()}
    others = ", ".join(f"{case} {record(means[case])}" for case in GARBAGE if case in means)
    return warning(
        f"reward {reward.name}, with weight {reward.weight:g}, likes the text of column {column} least of all",
        (*reward.key, "weight"),
        because=(
            f"a completion equal to it gets {record(means[GOLD])}, and others more: {others}"
            if reward.weight > 0
            else f"a completion equal to it gets {record(means[GOLD])}, and others less: {others}",
            f"it reads {column}, which differs between rows and is not in the prompts, as right answers do",
        ),
        fix=f"weight: {-reward.weight:g}, if a smaller value is better",
    )


def _sum(inputs: Seen) -> Iterator[Finding]:
    sums = totals(inputs)
    best = max(sums[case] for case in GOLDS if case in sums)
    reads = any(inputs.reference in reward.parameters for reward in inputs.rewards)
    # Without a function that reads the reference, right answers score the same as those of other rows.
    garbage = [case for case in GARBAGE if case in sums and (reads or case != OTHER)]
    worst = max(garbage, key=sums.__getitem__)
    if sums[worst] >= best or math.isclose(sums[worst], best):  # 0.1 + 0.2 is more than 0.3 by rounding
        yield warning(
            f"right answers get {record(best)}, but {worst} completions get {record(sums[worst])}",
            ("rewards",),
            because=("both are the weighted sum of all rewards, a mean over the rows", f"right answers: {inputs.gold}"),
            fix="check the weights, and the column that right answers are made from",
        )
