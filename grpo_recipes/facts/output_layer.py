"""How a release of TRL gets the probabilities of completions out of the last hidden states."""

from grpo_recipes.facts.released.shipped import table
from grpo_recipes.facts.released.windows import is_within

TABLE = "output_layer"


def output_layer(trl: str) -> str | None:
    """The way of this release: in tiles ("fused"), from whole logits ("logits") or by a kernel that reads them.

    None for a release that was not looked into.
    """
    return next((str(row["by"]) for row in table(TABLE)["computes"] if is_within(trl, row["trl"])), None)
