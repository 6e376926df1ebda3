"""Suggests what a wrong command line meant: other tools' names for commands and options, or a missing --set."""

import os
import re
import shlex
from collections.abc import Sequence
from itertools import pairwise

import click

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.findings.wording import nearest_words

# Other tools' names for commands, and the command here; {} stands for the remaining words.
_OTHER_COMMANDS = {
    **dict.fromkeys(("train", "start", "launch", "grpo"), "{}"),
    **dict.fromkeys(("resume", "continue"), "{} --resume"),
    **dict.fromkeys(("check", "lint", "verify-recipe"), "validate {}"),
    **dict.fromkeys(("eval", "evaluate", "inference", "infer", "predict"), "generate {}"),
    **dict.fromkeys(("talk", "interact"), "chat {}"),
    **dict.fromkeys(("server", "api", "serve"), "export {} -o FOLDER, then vllm serve FOLDER"),
    **dict.fromkeys(("merge", "save"), "export {}"),
    **dict.fromkeys(("list", "ls", "status"), "runs {}"),
    **dict.fromkeys(("estimate", "memory"), "fit {}"),
    **dict.fromkeys(("test", "dry-run"), "preflight {}"),
    **dict.fromkeys(("convert", "import", "migrate"), "init --from {}"),
    **dict.fromkeys(("new", "create"), "init {}"),
    "verify": "{} --verify",
    "version": "--version",
    "help": "{} --help",
}


def no_command(words: Sequence[str], commands: Sequence[str]) -> Refusal:
    """The error for an unknown first word, with the most similar file or command."""
    word, *rest = words
    because = f"no file has this name, and the commands are {', '.join(commands)}"
    fix = "the file of a recipe; grpo-run --help lists the commands"
    if word.lower() in _OTHER_COMMANDS:
        command = _OTHER_COMMANDS[word.lower()].replace("{}", shlex.join(rest)).strip()
        return Refusal.of(f"{word!r} is not a command", because=because, fix=f"grpo-run {command}")
    near = [f"{word}.yaml"] if os.path.isfile(f"{word}.yaml") else nearest_words(word.lower(), commands, cutoff=0.6)
    if near:
        fix = shlex.join(["grpo-run", near[0], *rest])
    return Refusal.of(f"{word!r} is not a command", because=because, fix=fix)


def suggestion_for(error: click.UsageError, given: Sequence[str]) -> str | None:
    """click's message with a suggestion; None if there is none. given: the words of the command line."""
    return _with_set(error, given) if isinstance(error, click.NoSuchOption) else _with_equals(error, given)


_PROCESSES = dict.fromkeys(("gpus", "num_gpus", "n_gpus", "nproc", "nproc_per_node"), ("launch.num_processes",))


def _with_equals(error: click.UsageError, given: Sequence[str]) -> str | None:
    """The suggestion for KEY=VALUE without --set, and for --set KEY VALUE."""
    if "unexpected extra argument" not in error.message:
        return None
    apart = [
        f"{key}={value}"
        for option, key, value in zip(given, given[1:], given[2:], strict=False)
        if option == "--set" and "=" not in key
    ]
    alone = [
        word
        for before, word in pairwise(given)
        if not before.startswith("--") and re.fullmatch(r"\+*[a-z][\w.]*(\[\d+\][\w.]*)?=.*", word)
    ]
    ways = " ".join(f"--set {shlex.quote(word.lstrip('+'))}" for word in apart or alone)
    return f"{error.message.rstrip('.')}. Set a value of the recipe with {ways}" if ways else None


def _with_set(error: click.NoSuchOption, given: Sequence[str]) -> str | None:
    """The suggestion for an option named like a recipe key, such as --max_steps 5: use --set."""
    if error.ctx is None or not any("--set" in parameter.opts for parameter in error.ctx.command.params):
        return None
    from grpo_recipes.explain.explain import keys_of, nearest_key

    name = error.option_name.lstrip("-").replace("-", "_")
    if name in ("output_dir", "run_dir", "output_folder") and any(
        "--out" in option.opts for option in error.ctx.command.params
    ):
        return f"No such option {error.option_name!r}. Did you mean '--out'?"
    if name.startswith("reward"):
        return f"No such option {error.option_name!r}. `rewards` is a list of the recipe; see grpo-run explain rewards"
    keys = _PROCESSES.get(name) or keys_of(name) or ([near] if "." in name and (near := nearest_key(name)) else [])
    keys = [of_grpo] if (of_grpo := f"training.{name}") in keys else keys  # a warm start has keys of the same names
    words = [word for argument in given for word in argument.split("=", 1)]
    after = words[words.index(error.option_name) + 1 :] if error.option_name in words else []
    value = after[0] if after and not after[0].startswith("--") else "VALUE"
    ways = " or ".join(f"--set {shlex.quote(f'{key}={value}')}" for key in keys)
    return f"No such option {error.option_name!r}. Set a value of the recipe with {ways}" if keys else None
