"""A recipe that starts from a run says what its KL term is measured from.

For beta > 0 TRL holds no second model where an adapter is trained: it switches the adapter off. So a run that goes on
with an adapter (`lora: {continue: true}`) is measured from the model without it, as the run before was. A run that
merged it, with a new adapter or none, is measured from what that run ended with. Of an adapter that it is handed whole,
newer releases of TRL take a copy for the reference (seen in 0.29.1 and 1.16.0), and older ones do not (0.14.0 to
0.23.1); grpo-run lays the tensors into a new adapter of the same shape, so that the reference is the same everywhere.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, decided
from grpo_recipes.settings import Setting
from grpo_recipes.user_files.ancestor import StartingPoint, ancestor_of, continues

ID = "MDL007"
OWNS = ("stage.reference",)


def decide(context: Context) -> Iterator[Setting]:
    found, beta = ancestor_of(context.source), context.value("GRPOConfig.beta")
    if not isinstance(found, StartingPoint) or not isinstance(beta, int | float) or beta <= 0:
        return
    if found.adapter is not None and continues(context.source):
        why = f"TRL switches the adapter off: the model that {found.name} was trained on"
        yield decided(OWNS[0], "base", ID, why, context.settings)
    else:
        yield decided(OWNS[0], "policy", ID, f"what {found.name} ended with, which is what is loaded", context.settings)
