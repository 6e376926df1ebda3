"""What part of an experiment a value belongs to, by the key that a user writes for it.

The table is `data/experiment_groups.json`. groups: in the order in which differences are shown. keys: where the section
says something else than the key; GRPOConfig fields without a section by their names. beginnings: the same for fields
that share the beginning of their names.
"""

from grpo_recipes.facts.classified import classified_fields
from grpo_recipes.facts.released.shipped import table


def groups() -> tuple[str, ...]:
    """The groups in their order."""
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
