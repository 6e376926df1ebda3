"""A first word that is neither a command nor a file."""

import os
import shlex
from collections.abc import Sequence

from grpo_recipes.errors import Refusal
from grpo_recipes.nearest import nearest_words
from grpo_recipes.yaml.shipped import shipped_files

# Other programs' names for what this program does.
OTHER_NAMES = {
    "check": "grpo-run validate RECIPE",
    "compare": "grpo-run diff A B",
    "dry-run": "grpo-run RECIPE --dry-run",
    "env": "grpo-run doctor",
    "examples": "grpo-run init --list",
    "extend": "grpo-run RUNDIR --extend training.max_steps=NUMBER",
    "fix": "grpo-run validate --fix RECIPE",
    "help": "grpo-run --help",
    "grid": "grpo-run sweep RECIPE --vary KEY=A,B",
    "import": "grpo-run init --from CONFIG",
    "lint": "grpo-run validate RECIPE",
    "list": "grpo-run init --list",
    "new": "grpo-run init",
    "recipes": "grpo-run init --list",
    "resume": "grpo-run RUNDIR --resume",
    "show": "grpo-run plan RECIPE",
    "smoke": "grpo-run RECIPE --smoke",
    "test": "grpo-run RECIPE --smoke",
    "train": "grpo-run RECIPE",
    "tune": "grpo-run sweep RECIPE --vary KEY=A,B",
    "verify": "grpo-run RUNDIR --verify",
    "version": "grpo-run --version",
}


def no_command(words: Sequence[str], commands: Sequence[str]) -> Refusal:
    """The refusal of the first word, with the nearest command or the one that does the same."""
    word, *rest = words
    because = f"no file has this name, and the commands are {', '.join(commands)}"
    fix = _meant(word, rest, commands) or "the file of a recipe; grpo-run --help lists the commands"
    return Refusal.of(f"{word!r} is not a command", because=because, fix=fix)


def _meant(word: str, rest: Sequence[str], commands: Sequence[str]) -> str | None:
    if word.lower() in OTHER_NAMES:
        return OTHER_NAMES[word.lower()]
    if os.path.isfile(f"{word}.yaml"):
        return shlex.join(["grpo-run", f"{word}.yaml", *rest])
    near = nearest_words(word.lower(), commands, cutoff=0.6)
    if near:
        return shlex.join(["grpo-run", near[0], *rest])
    return f"grpo-run init {word} writes the shipped recipe of this name" if word in shipped_files() else None
