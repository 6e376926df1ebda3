"""A recipe that starts from a run reports the reference of its KL term.

With an adapter and beta > 0 TRL keeps no second model, but switches the adapter off. If a run continues an adapter
(`lora: {continue: true}`), the reference is the model without it, as in the earlier run. If a run merges the adapter,
with or without a new one, the reference is the final model of the earlier run. If TRL receives a trained adapter, newer
releases copy it for the reference (0.29.1 and 1.16.0), and older releases do not (0.14.0 to 0.23.1); grpo-run loads the
tensors into a new adapter of the same shape, so the reference is the same everywhere.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.settings import Setting
from grpo_recipes.user_files.ancestor import StartingPoint, ancestor_of, continues

ID = "MDL007"
OWNS = ("stage.reference",)


def decide(context: Context) -> Iterator[Setting]:
    ancestor, beta = ancestor_of(context.source), context.value("GRPOConfig.beta")
    if not isinstance(ancestor, StartingPoint) or not isinstance(beta, int | float) or beta <= 0:
        return
    if ancestor.adapter is not None and continues(context.source):
        why = f"TRL switches the adapter off, which leaves the model that {ancestor.name} was trained on"
        yield rule_setting(OWNS[0], "base", why)
    else:
        yield rule_setting(OWNS[0], "policy", f"the loaded model, the final model of {ancestor.name}")
