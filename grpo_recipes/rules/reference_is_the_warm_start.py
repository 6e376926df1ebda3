"""A run with a warm start has no KL penalty.

The reference of `grpo.beta` is the model that the run loaded, before the warm start: TRL loads it a second time, or
turns the adapter off. The penalty would pull the policy back from what the warm start taught it, while in practice the
reference of GRPO after supervised training is the supervised model. A second run has that reference if it starts from a
run of the warm start and merges its adapter, with `model.from_run`.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context

ID = "TRN015"
BETA = "GRPOConfig.beta"


def check(context: Context) -> Iterator[Finding]:
    if context.has_section("warm_start") and context.value(BETA) != 0:
        message = f"beta {context.value(BETA)} would pull the policy back to the model before its warm start"
        because = "TRL's reference is the model as it was loaded, and without an adapter if it has one"
        yield context.wrong(message, BETA, because, 0, fix="beta: 0, or remove warm_start")
