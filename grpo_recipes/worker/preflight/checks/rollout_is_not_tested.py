"""Preflight does not test a rollout.

What: a rollout needs the trainer and its model, and preflight loads no model, so it does not call the rollout.
Why: without this note, an untested rollout would look like a tested one.
Fix: --smoke runs it for two steps.
Example: rollout play makes the completions, so preflight does not test them
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, not_checked
from grpo_recipes.worker.preflight._shared.seen import Seen

ID = "PFL035"


def check(inputs: Seen) -> Iterator[Finding]:
    if inputs.plan.rollout is not None:
        yield not_checked(
            f"rollout {inputs.plan.rollout.name} makes the completions, so preflight does not test them",
            ("rollout",),
            because="it is called with the trainer and its model, and preflight loads no model",
            fix="grpo-run RECIPE --smoke trains two steps with it",
        )
