"""Preflight does not check reward models.

What: preflight needs no GPU and loads no model, so it does not load a reward model either.
Why: without this note, an untested reward model would look like a tested one.
Fix: --smoke runs it for two steps.
Example: reward my-reward-model is a model, so preflight does not test it
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, not_checked
from grpo_recipes.worker.preflight._shared.seen import Seen

ID = "PFL028"


def check(inputs: Seen) -> Iterator[Finding]:
    for reward in inputs.rewards:
        if reward.kind == "model":
            yield not_checked(
                f"reward {reward.name} is a model, so preflight does not test it",
                reward.key,
                because="preflight loads no model",
                fix="grpo-run RECIPE --smoke trains two steps with it",
            )
