"""Options for sbatch only select and share machines, and have full names and valid values.

The keys of `slurm.options` are long options of sbatch without their dashes; each becomes one `#SBATCH` line. A list
names the options that a recipe may have, and the form of their values: they select the machines of the job, how much of
them it gets, and when. If the format has a key for an option, the recipe uses that key. grpo-run itself writes what the
job needs, such as where its output goes or how many tasks it has. Options that run other programs, read or write files,
or send mail are left to the user who submits the job: sbatch reads them from the environment (SBATCH_*) and from its
command line. sbatch accepts any prefix of a name, so the rule accepts only whole names.
"""

import re
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.contract.findings.wording import nearest_words
from grpo_recipes.facts.sbatch_options import has_shape, home, is_allowed, is_the_users, longer, why_not
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.machines import is_slurm

ID = "WLD006"
OPTIONS = "slurm.options"
NAME = r"[a-z][a-z0-9-]*[a-z0-9]"


def check(context: Context) -> Iterator[Finding]:
    if not is_slurm(context):
        return  # WLD005 reports that the section has no effect
    for name, value in context.mapping(OPTIONS).items():
        if ("slurm", "options", name) in context.refused:
            continue
        if not re.fullmatch(NAME, name):
            yield _misspelt(context, name, value)
        elif (key := home(name)) is not None:
            yield _not_here(context, name, "each value has one key", f"write it as {key}, and remove it here")
        elif (because := why_not(name)) is not None:
            yield _not_here(context, name, because, f"remove {name}{_by_hand(name)}")
        elif not is_allowed(name):
            yield _no_such_option(context, name, value)
        elif name == "gres" and "gpu" in str(value).lower():
            gpus = "launch.gpus_per_node and slurm.gpu_type"
            yield _not_here(context, name, "each value has one key", f"write it as {gpus}, and remove it here")
        elif not has_shape(name, value):
            yield _unfit(context, name)


def _by_hand(name: str) -> str:
    """How the user can pass an option that a recipe may not have."""
    if not is_the_users(name):
        return ""
    variable = f"SBATCH_{name.upper().replace('-', '_')}"
    return f"; pass it when you submit the job: sbatch --{name}, or {variable} if sbatch reads it"


def _unfit(context: Context, name: str) -> Finding:
    because = "it must be one word of an #SBATCH line, with letters, numbers and the characters that this option allows"
    return _option_finding(context, name, f"{name} has an unexpected value", because, None, [_removal(name)])


def _misspelt(context: Context, name: str, value: object) -> Finding:
    right = re.sub(r"[_\s]+", "-", name.strip().lstrip("-").lower())
    is_better = is_allowed(right) and right not in context.mapping(OPTIONS)
    patch = [_removal(name), *([Patch(("slurm", "options", right), value)] if is_better else [])]
    because = "a key is the long name of an option without dashes, such as mem-per-gpu"
    fix = right if is_better else f"remove {name}"
    return _option_finding(context, name, f"{name} is not an option of sbatch", because, fix, patch)


def _no_such_option(context: Context, name: str, value: object) -> Finding:
    whole = longer(name)
    if whole:
        because = f"sbatch would read it as {' or '.join(whole[:3])}"
        patch, fix = [_removal(name)], f"remove {name}, or write the whole name"
        if len(whole) == 1 and is_allowed(whole[0]) and whole[0] not in context.mapping(OPTIONS):
            patch.append(Patch(("slurm", "options", whole[0]), value))
            fix = whole[0]
        return _option_finding(context, name, f"{name} is not the full name of an option", because, fix, patch)
    near = nearest_words(name, longer(""), cutoff=0.75)
    because = "it is not in the list of allowed options" + (f"; the nearest is {near[0]}" if near else "")
    return _not_here(context, name, because, f"remove {name}{_by_hand(name)}")


def _not_here(context: Context, name: str, because: str, fix: str) -> Finding:
    return _option_finding(context, name, f"slurm.options cannot set {name}", because, fix, [_removal(name)])


def _removal(name: str) -> Patch:
    return Patch(("slurm", "options", name), remove=True)


def _option_finding(
    context: Context, name: str, message: str, because: str, fix: str | None, patch: list[Patch]
) -> Finding:
    return context.finding(message, f"{OPTIONS}.{name}", because, fix=fix, patch=patch)
