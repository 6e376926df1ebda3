"""A first word that is neither a command nor a file."""

import os
import shlex
from collections.abc import Sequence

from grpo_recipes.errors import Refusal
from grpo_recipes.nearest import nearest_words
from grpo_recipes.yaml.shipped import shipped_files

# What people call a thing that this program does under another name.
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
    """The refusal of the first word: the command that it nearly is, or what does what it asks for."""
    word, *rest = words
    because = f"no file here has this name, and the commands are {', '.join(commands)}"
    fix = _meant(word, rest, commands) or "a recipe's file, or grpo-run --help for what each command does"
    return Refusal.of(f"there is no command {word!r}", because=because, fix=fix)


def _meant(word: str, rest: Sequence[str], commands: Sequence[str]) -> str | None:
    if word.lower() in OTHER_NAMES:
        return OTHER_NAMES[word.lower()]
    if os.path.isfile(f"{word}.yaml"):
        return shlex.join(["grpo-run", f"{word}.yaml", *rest])
    near = nearest_words(word.lower(), commands, cutoff=0.6)
    if near:
        return shlex.join(["grpo-run", near[0], *rest])
    return f"grpo-run init {word} writes the shipped recipe of this name" if word in shipped_files() else None
