"""A KL penalty does not pull back to the model before a warm start.

The reference of `grpo.beta` is the model that the run loaded, before the warm start: TRL loads it a second time, or
turns the adapter off. The penalty would pull the policy back from what the warm start taught it, while in practice the
reference of GRPO after supervised training is the supervised model. A second run has that reference if it starts from a
run of the warm start and merges its adapter, with `model.from_run`. If it continues the adapter instead, its reference
is the model without the adapter, so without the warm start, which is reported.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.user_files.ancestor import NoStart, StartingPoint, ancestor_of, continues, read_ancestor

ID = "TRN015"
BETA = "GRPOConfig.beta"
_MOST_RUNS = 20  # each continues the adapter of the one before


def check(context: Context) -> Iterator[Finding]:
    if context.value(BETA) == 0:
        return
    if context.has_section("warm_start"):
        message = f"beta {context.value(BETA)} would pull the policy back to the model before its warm start"
        because = "TRL's reference is the model as it was loaded, and without an adapter if it has one"
        yield context.wrong(message, BETA, because, 0, fix="beta: 0, or remove warm_start")
    elif continues(context.source) and (name := _warm_started(ancestor_of(context.source))) is not None:
        message = f"beta {context.value(BETA)} pulls the policy back to the model before the warm start of {name}"
        because = "the recipe continues its adapter, and TRL's reference is the model without it"
        fix = "beta: 0, or remove lora.continue, which merges the adapter into the model and the reference"
        yield context.finding(message, BETA, because, severity="warning", fix=fix)


def _warm_started(point: StartingPoint | NoStart | None) -> str | None:
    """The name of the run that warm-started a continued adapter, None without one."""
    for _ in range(_MOST_RUNS):
        if not isinstance(point, StartingPoint) or point.plan.get("warm_start"):
            return point.name if isinstance(point, StartingPoint) else None
        before = point.plan.get("ancestor")
        continued = before if isinstance(before, dict) and before.get("use") == "continue" else {}
        point = read_ancestor(str(continued["named"]), str(point.run)) if "named" in continued else None
    return None
