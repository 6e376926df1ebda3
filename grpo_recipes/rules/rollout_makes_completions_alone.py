"""A rollout is the only source of completions.

With `tools` or an `environment` TRL runs its own loop of calls after a rollout and ignores the rollout's `env_mask`: it
silently trains on tokens that the policy did not write. For held-out rows, the policy itself generates, with one seed
per row. A rollout cannot do this, so evaluation would measure something different from training.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.said_tools import said_code

ID = "TOL012"


def check(context: Context) -> Iterator[Finding]:
    if said_code(context, "rollout") is None:
        return
    for section in ("tools", "environment"):
        if context.value("tools") if section == "tools" else said_code(context, section) is not None:
            said = f"a rollout cannot be combined with {'tools' if section == 'tools' else 'an environment'}"
            because = "TRL also calls tools after the rollout, and then ignores its env_mask"
            yield context.finding(
                said, section, because, fix=f"call them in the rollout, or remove {section} or the rollout"
            )
    if context.has_section("evaluation"):
        said = "a rollout cannot generate held-out completions"
        because = "the policy would generate them in one turn, unlike in training"
        yield context.finding(said, "evaluation", because, patch=[Patch(("evaluation",), None)])
