"""The part of an experiment that a value belongs to, by its recipe key.

The table is facts/data/experiment_groups.json. groups: in display order. keys: those whose group differs from their
section's; GRPOConfig fields without a section by name. beginnings: the same for fields with a common prefix.
"""

from grpo_recipes.facts.classified import classified_fields
from grpo_recipes.facts.released.shipped import table


def groups() -> tuple[str, ...]:
    """The groups in display order."""
    return tuple(table("experiment_groups")["groups"])


def group_of(key: str) -> str:
    """The group of a key of an experiment: grpo.beta, trl.entropy_coef, GRPOConfig.seed, rewards.accuracy.weight."""
    section, _, name = key.partition(".")
    field = classified_fields().get(name) if section in ("trl", "GRPOConfig") else None
    if field is not None and field.home is not None:
        return group_of(field.home)
    known, whole = table("experiment_groups"), name if field is not None else key
    if whole in known["keys"]:
        return str(known["keys"][whole])
    starts = (start for start in known["beginnings"] if field is not None and name.startswith(start))
    beginning = next(starts, None)
    return str(known["beginnings"][beginning] if beginning else known["sections"].get(section, "other"))
