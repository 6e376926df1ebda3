"""A rollout is the only source of completions.

With `tools` or an `environment` TRL runs its own loop of calls after a rollout and ignores the rollout's `env_mask`: it
silently trains on tokens that the policy did not write. For held-out rows, the policy itself generates, with one seed
per row. A rollout cannot do this, so evaluation would measure something different from training.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.said_tools import code_of_section

ID = "TOL012"


def check(context: Context) -> Iterator[Finding]:
    if code_of_section(context, "rollout") is None:
        return
    for section in ("tools", "environment"):
        if context.value("tools") if section == "tools" else code_of_section(context, section) is not None:
            message = f"a rollout cannot be combined with {'tools' if section == 'tools' else 'an environment'}"
            because = "TRL also calls tools after the rollout, and then ignores its env_mask"
            yield context.finding(
                message, section, because, fix=f"call them in the rollout, or remove {section} or the rollout"
            )
    if context.has_section("evaluation"):
        message = "a rollout cannot generate held-out completions"
        because = "the policy would generate them in one turn, unlike in training"
        yield context.finding(message, "evaluation", because, patch=[Patch(("evaluation",), None)])
