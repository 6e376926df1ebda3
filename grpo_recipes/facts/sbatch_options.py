"""What a recipe may ask sbatch for, and in which form: everything else belongs to the user who submits the job.

The table is `data/sbatch_options.json`. shapes: what a whole value looks like, by name. allowed: long options with the
shapes that their value may have ("flag": it has none) and what they do. homes: those that the recipe has a key for.
owned: those that grpo-run writes itself or cannot do with. users: those that run, read, write or send something, with
what. Source: the manual of sbatch 24.11, and `sbatch --help` of 22.05, in tests/slurm.
"""

import re

from grpo_recipes.facts.released.shipped import table

FLAG = "flag"


def is_allowed(name: str) -> bool:
    """Whether a recipe may have the option."""
    return name in table("sbatch_options")["allowed"]


def has_shape(name: str, value: object) -> bool:
    """Whether a value of an allowed option has one of its shapes. true: the option stands without a value."""
    facts = table("sbatch_options")
    shapes = facts["allowed"][name]["shape"]
    if value is True:
        return FLAG in shapes
    text = str(value)
    is_plain = text.isprintable() and text == text.strip() and not (name == "gres" and "gpu" in text.lower())
    return is_plain and any(one != FLAG and re.fullmatch(facts["shapes"][one], text) for one in shapes)


def home(name: str) -> str | None:
    """The recipe's key for an option, None where it has none."""
    found: str | None = table("sbatch_options")["homes"].get(name)
    return found


def why_not(name: str) -> str | None:
    """Why no recipe has a known option, None for one that has no such reason."""
    facts = table("sbatch_options")
    found: str | None = facts["owned"].get(name) or facts["users"].get(name)
    return found


def is_the_users(name: str) -> bool:
    """Whether the user may hand the option to sbatch: it is not one that the job's script cannot do with."""
    return name not in table("sbatch_options")["owned"]


def longer(name: str) -> list[str]:
    """The known options that sbatch may take this beginning for."""
    facts = table("sbatch_options")
    names = [one for part in ("allowed", "homes", "owned", "users") for one in facts[part]]
    return [one for one in names if one.startswith(name) and one != name]
