"""A recipe that starts from a run reports the reference of its KL term.

With an adapter and beta > 0 TRL holds no second model: it switches the adapter off. So for a run that continues an
adapter (`lora: {continue: true}`) the reference is the model without it, as in the earlier run. For a run that merged
it, with a new adapter or none, the reference is the model that the earlier run ended with. If TRL receives a complete
adapter, newer releases copy it for the reference (seen in 0.29.1 and 1.16.0), and older ones do not (0.14.0 to 0.23.1);
grpo-run loads the tensors into a new adapter of the same shape, so the reference is the same everywhere.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, decided
from grpo_recipes.rules._shared.settings import Setting
from grpo_recipes.user_files.ancestor import StartingPoint, ancestor_of, continues

ID = "MDL007"
OWNS = ("stage.reference",)


def decide(context: Context) -> Iterator[Setting]:
    found, beta = ancestor_of(context.source), context.value("GRPOConfig.beta")
    if not isinstance(found, StartingPoint) or not isinstance(beta, int | float) or beta <= 0:
        return
    if found.adapter is not None and continues(context.source):
        why = f"TRL switches the adapter off: the model that {found.name} was trained on"
        yield decided(OWNS[0], "base", why)
    else:
        yield decided(OWNS[0], "policy", f"what {found.name} ended with, which is what is loaded")
