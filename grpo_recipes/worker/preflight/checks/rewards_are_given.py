"""Every completion gets a reward from at least one function.

What: None or NaN for some kinds of completions, and rows for which no function gives a number. Rewards that are too
slow for all examined rows are called with some of them, and this is reported.
Why: TRL leaves None out of the weighted sum. If all functions give a completion None, it drops out of its group: its
advantage is 0, and TRL only logs a warning. None is right for "this reward does not apply to this row", and wrong for
"this completion is bad", because the sum then consists of the other rewards.
Fix: 0.0 for a bad completion; None only for a whole row.
Example: reward accuracy gives no reward for these completions: empty
Source: trl's grpo_trainer.py (nansum over rewards_per_func, unscorable_mask).
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, mistake, not_checked, warning
from grpo_recipes.contract.findings.wording import join_items
from grpo_recipes.worker.preflight._shared.reward_seen import RewardSeen, by_case
from grpo_recipes.worker.preflight._shared.seen import Seen

ID = "PFL025"


def check(inputs: Seen) -> Iterator[Finding]:
    for reward in inputs.rewards:
        yield from _by_completion(reward)
        yield from _not_called(inputs, reward)
    yield from _rows_without(inputs)


def _by_completion(reward: RewardSeen) -> Iterator[Finding]:
    """Yields rewards that are missing for some completions; whole rows without a reward are intended."""
    call = reward.judged
    if call is None:
        return
    given = list(zip(call.entries, call.values, strict=True))
    rows = {row for (row, _), value in given if value is not None}
    cases = {case for (row, case), value in given if value is None and row in rows}
    if cases:
        yield warning(
            f"reward {reward.name} gives no reward for these completions: "
            f"{join_items([case for case in by_case(call) if case in cases], 5)}",
            reward.key,
            because="trl leaves None and NaN out of the sum, which then consists of the other rewards",
            fix="return 0.0 for a bad completion",
        )


def _not_called(inputs: Seen, reward: RewardSeen) -> Iterator[Finding]:
    call = reward.judged
    count = 0 if call is None else len({row for row, _ in call.entries})
    if call is not None and count < len(inputs.sample):
        yield not_checked(
            f"reward {reward.name} was called for {count} of the {len(inputs.sample)} examined rows",
            reward.key,
            because=f"that took {call.seconds:.2g} s, and a call may take {inputs.options.time_limit:g} s",
            fix="--time-limit, for more of them",
        )


def _rows_without(inputs: Seen) -> Iterator[Finding]:
    calls = [reward.judged for reward in inputs.rewards]
    if inputs.data is None or not calls or None in calls:
        return
    made = [call for call in calls if call is not None]
    given = {
        row for call in made for (row, _), value in zip(call.entries, call.values, strict=True) if value is not None
    }
    tried = set.intersection(*({row for row, _ in call.entries} for call in made))
    without = sorted(tried - given)
    if without:
        rows = [inputs.data.number(inputs.sample[row]) for row in without]
        yield mistake(
            f"{len(without)} of {len(tried)} rows get no reward from any function",
            ("rewards",),
            because=(f"rows {join_items(rows, 5)}", "trl leaves their completions out, so they teach nothing"),
            fix="leave these rows out, or correct the column that the rewards read",
            severity="error" if len(without) == len(tried) else "warning",
        )
