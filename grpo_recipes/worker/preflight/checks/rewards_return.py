"""Each reward function can be loaded and called, with every kind of completion.

What: preflight calls each function as TRL does: by keywords, with one list per column and completions in the groups of
their prompt. They are right answers (if the data has a reference), empty ones, words, noise, and the right answer of
another row. The function runs in a separate process. Preflight names the line of your file that raised an exception,
columns that the function asks for and the data lacks, and a function without **kwargs.
Why: models write empty and malformed completions in the first steps, and an exception in a reward ends the training.
sys.exit in a reward ends it too.
Fix: follow the exception; give 0.0 to a completion that cannot be judged.
Example: reward length fails with empty completions: ZeroDivisionError: division by zero (rewards.py:7: return 1 / n)
Source: trl's grpo_trainer.py (_calculate_rewards).
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, mistake, not_checked
from grpo_recipes.contract.findings.wording import OF_THE_TRAINER, join_items, without_parameters
from grpo_recipes.worker.preflight._shared.reward_seen import Call, RewardSeen
from grpo_recipes.worker.preflight._shared.seen import Seen
from grpo_recipes.worker.preflight._shared.trl_source import names_from_trl
from grpo_recipes.worker.preflight.checks import completions_have_the_shape

ID = "PFL020"
ENVIRONMENTS = "environments"
UNJUDGED = "give 0.0 to a completion that cannot be judged"


def check(inputs: Seen) -> Iterator[Finding]:
    for reward in inputs.rewards:
        failed = reward.failed
        if failed is None or failed.kind != "raised" or completions_have_the_shape.explains(reward):
            continue
        if ENVIRONMENTS in failed.missing and inputs.plan.all_environments:
            yield _not_tried(reward)
        elif failed.missing:
            yield _missing(inputs, reward, failed)
        elif failed.unexpected:
            yield _keyword_finding(reward, failed)
        else:
            yield _exception_finding(inputs, reward, failed)


def _not_tried(reward: RewardSeen) -> Finding:
    return not_checked(
        f"reward {reward.name} uses {ENVIRONMENTS}, so preflight does not test it",
        reward.key,
        because="a run passes each completion's object; preflight has only one, in a separate process",
        fix="--smoke runs it for two steps",
    )


def _missing(inputs: Seen, reward: RewardSeen, failed: Call) -> Finding:
    columns = sorted(set(inputs.data.rows.column_names) - {"prompt"}) if inputs.data is not None else []
    others = [name for name in failed.missing if name not in OF_THE_TRAINER]
    fixes = [f'columns: {{{others[0]}: "{{{{ ... }}}}"}} under dataset, with a column of the data'] if others else []
    return mistake(
        f"reward {reward.name} asks for {join_items(failed.missing)}, which "
        f"{'the data does not have' if others == failed.missing else 'trl does not pass'}",
        reward.key,
        because=f"trl passes {', '.join(names_from_trl())} and the columns {', '.join(columns)}",
        fix="; ".join(filter(None, (without_parameters(failed.missing), *fixes))),
    )


def _keyword_finding(reward: RewardSeen, failed: Call) -> Finding:
    return mistake(
        f"reward {reward.name} does not take {failed.unexpected}",
        reward.key,
        because="trl passes every column, and newer releases pass more, by keyword",
        fix="add **kwargs to its parameters",
    )


def _exception_finding(inputs: Seen, reward: RewardSeen, failed: Call) -> Finding:
    because = [failed.place] if failed.place else []
    if failed.name == "load":
        return mistake(f"reward {reward.name} cannot be loaded: {failed.error}", reward.key, because=tuple(because))
    cases = [
        call
        for call in reward.calls
        if call.name not in ("one row", "one row again", "all", "again") and call.shape == "own"
    ]
    raising = [call.name for call in cases if call.kind != "values"]
    texts = [name for name in inputs.plan.data.columns if name in reward.parameters]
    if not (failed.error.startswith("TypeError") and "'str'" in failed.error and texts):
        texts = []
    because += [f"columns from dataset.columns are text: {join_items(texts)}"] if texts else []
    with_ = f" with these completions: {join_items(raising)}" if raising and len(raising) < len(cases) else ""
    return mistake(
        f"reward {reward.name} fails{with_}: {failed.error}",
        reward.key,
        because=tuple(because),
        fix=f"convert it to a number in the reward: float({texts[0]})" if texts else UNJUDGED if with_ else None,
    )
