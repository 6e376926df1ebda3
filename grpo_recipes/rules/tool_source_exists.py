"""A tool or rollout is a function in an existing file, and an environment is a class in one.

grpo-run looks for the file relative to the recipe that names it, reads it, and never runs it before you consent, which
also covers imported files in the same folder. It follows a name through `a = b` and these files, and does not check
names that only running the file would resolve. The training processes would end with FileNotFoundError or
AttributeError after all their imports.
"""

import ast
from collections.abc import Callable, Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.contract.findings.wording import nearest_words
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.said_tools import SaidCode, code_of_section, tools_of_recipe
from grpo_recipes.user_files.functions.classes import class_of
from grpo_recipes.user_files.functions.definitions import Definition, definition, module_of
from grpo_recipes.user_files.functions.documented import read_function
from grpo_recipes.user_files.reward_imports import modules_beside

ID = "TOL002"
PLURAL = {"function": "functions", "class": "classes"}
WHO = {"tools": "a tool", "environment": "an environment", "rollout": "a rollout"}


def check(context: Context) -> Iterator[Finding]:
    for tool in tools_of_recipe(context):
        yield from _of_one(context, "tools", tool, "function", read_function)
    for section, kind, read in (("environment", "class", class_of), ("rollout", "function", read_function)):
        code = code_of_section(context, section)
        if code is not None:
            yield from _of_one(context, section, code, kind, read)


def _of_one(
    context: Context, section: str, code: SaidCode, kind: str, read: Callable[[str, str], object]
) -> Iterator[Finding]:
    """read: returns the source's definition of a name, if it is of the kind."""
    mark, key = context.source.mark(code.place), section if section == "tools" else f"{section}.python"
    try:
        target = definition(code.path, code.name)
    except OSError as error:
        because = [f"looked for {code.path}"]
        yield context.finding(f"{code.file}: {error.strerror or error}", key, because, mark=mark)
        return
    except (SyntaxError, ValueError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        text = error.msg if isinstance(error, SyntaxError) else error
        because = ["the file is not Python source"]
        yield context.finding(f"{code.file}{line}: {text}", key, because, mark=mark)
        return
    if target is None or (
        isinstance(target, Definition) and isinstance(target.node, ast.ClassDef) != (kind == "class")
    ):
        names = [name for name in module_of(code.path).callables if _may_be(code.path, name, kind)]
        close = nearest_words(code.name, names, cutoff=0.5)
        message = f"{code.file} has no {kind} {code.name}"
        reason = f"its {PLURAL[kind]} are {', '.join(names)}" if names else f"it has no {PLURAL[kind]}"
        fix = f"python: {code.file}:{close[0]}" if close else None
        patch = [Patch(code.place, f"{code.file}:{close[0]}")] if close else []
        yield context.finding(message, key, reason, fix=fix, patch=patch, mark=mark)
        return
    part = _partial_of(code.path, code.name) if kind == "class" and isinstance(target, str) else None
    if part is not None:
        message = f"{code.file}: {code.name} is a partial of {part}, not a class"
        why = "tools are methods of a class, and TRL creates its objects with environment.config"
        yield context.finding(
            message, key, why, fix=f"python: {code.file}:{part}, and the partial's arguments under config", mark=mark
        )
    elif read(code.path, code.name) is None:
        message = f"not checked: what {code.name} is; its source does not show it"
        why = target if isinstance(target, str) else f"it is defined at {target.at}"
        yield context.finding(message, key, why, severity="not-checked", mark=mark)
    try:
        modules_beside(code.path)
    except (OSError, ValueError) as error:
        because = [f"a run copies everything that {WHO[section]} imports from its folder into the run folder"]
        message = (error.strerror if isinstance(error, OSError) else None) or str(error)
        fix = "move its code into the file or its folder, or install the package elsewhere"
        yield context.finding(message, key, because, fix=fix, mark=mark)


def _partial_of(path: str, name: str) -> str | None:
    """The name that a functools.partial wraps, None for anything else."""
    match module_of(path).bound.get(name, [(None, False)])[-1][0]:
        case ast.Call(func=ast.Name(id="partial") | ast.Attribute(attr="partial"), args=[ast.Name(id=part), *_]):
            return part
    return None


def _may_be(path: str, name: str, kind: str) -> bool:
    """Whether the file defines a name of the kind; imported names do not count."""
    target = definition(path, name)
    return isinstance(target, Definition) and isinstance(target.node, ast.ClassDef) == (kind == "class")
