"""The sbatch options that a recipe may use, and their values; everything else is up to the user who submits the job.

The table is `data/sbatch_options.json`. shapes: patterns for whole values, by name. allowed: long options with the
shapes of their values ("flag": none) and their effect. homes: options that have a key in the recipe. owned: options
that grpo-run writes itself or that break its job. users: options that run, read, write or send something, with a
description. Source: the manual of sbatch 24.11, and `sbatch --help` of 22.05, in tests/slurm.
"""

import re

from grpo_recipes.facts.released.shipped import table

FLAG = "flag"


def is_allowed(name: str) -> bool:
    """Whether a recipe may use the option."""
    return name in table("sbatch_options")["allowed"]


def has_shape(name: str, value: object) -> bool:
    """Whether a value of an allowed option has one of its shapes. true: the option without a value."""
    facts = table("sbatch_options")
    shapes = facts["allowed"][name]["shape"]
    if value is True:
        return FLAG in shapes
    text = str(value)
    is_plain = text.isprintable() and text == text.strip() and not (name == "gres" and "gpu" in text.lower())
    return is_plain and any(shape != FLAG and re.fullmatch(facts["shapes"][shape], text) for shape in shapes)


def home(name: str) -> str | None:
    """The recipe's key for an option, None without one."""
    key: str | None = table("sbatch_options")["homes"].get(name)
    return key


def why_not(name: str) -> str | None:
    """Why no recipe may use a known option, None if there is no such reason."""
    facts = table("sbatch_options")
    reason: str | None = facts["owned"].get(name) or facts["users"].get(name)
    return reason


def is_the_users(name: str) -> bool:
    """Whether a user may pass the option to sbatch: it does not break the job's script."""
    return name not in table("sbatch_options")["owned"]


def longer(name: str) -> list[str]:
    """The known options that sbatch may abbreviate to this prefix."""
    facts = table("sbatch_options")
    names = [option for part in ("allowed", "homes", "owned", "users") for option in facts[part]]
    return [option for option in names if option.startswith(name) and option != name]
