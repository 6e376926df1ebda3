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
from grpo_recipes.rules._shared.said_tools import SaidCode, said_code, said_tools
from grpo_recipes.user_files.functions.classes import class_of
from grpo_recipes.user_files.functions.definitions import Definition, definition, module_of
from grpo_recipes.user_files.functions.documented import documented
from grpo_recipes.user_files.reward_imports import imported_beside

ID = "TOL002"
PLURAL = {"function": "functions", "class": "classes"}
WHO = {"tools": "a tool", "environment": "an environment", "rollout": "a rollout"}


def check(context: Context) -> Iterator[Finding]:
    for tool in said_tools(context):
        yield from _of_one(context, "tools", tool, "function", documented)
    for section, kind, read in (("environment", "class", class_of), ("rollout", "function", documented)):
        said = said_code(context, section)
        if said is not None and said.path:
            yield from _of_one(context, section, said, kind, read)


def _of_one(
    context: Context, section: str, said: SaidCode, kind: str, read: Callable[[str, str], object]
) -> Iterator[Finding]:
    """read: returns the source's definition of a name, if it is of the kind."""
    mark, key = context.source.mark(said.place), section if section == "tools" else f"{section}.python"
    try:
        found = definition(said.path, said.name)
    except OSError as error:
        because = [f"looked for {said.path}"]
        yield context.finding(f"{said.file}: {error.strerror or error}", key, because, mark=mark)
        return
    except (SyntaxError, ValueError) as error:
        line = f":{error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        text = error.msg if isinstance(error, SyntaxError) else error
        because = ["the file is not Python source"]
        yield context.finding(f"{said.file}{line}: {text}", key, because, mark=mark)
        return
    if found is None or (isinstance(found, Definition) and isinstance(found.node, ast.ClassDef) != (kind == "class")):
        names = [name for name in module_of(said.path).callables if _may_be(said.path, name, kind)]
        close = nearest_words(said.name, names, cutoff=0.5)
        told = f"{said.file} has no {kind} {said.name}"
        reason = f"its {PLURAL[kind]} are {', '.join(names)}" if names else f"it has no {PLURAL[kind]}"
        fix = f"python: {said.file}:{close[0]}" if close else None
        yield context.finding(
            told, key, reason, fix=fix, patch=[Patch(said.place, f"{said.file}:{close[0]}")] if close else [], mark=mark
        )
        return
    part = _partial_of(said.path, said.name) if kind == "class" and isinstance(found, str) else None
    if part is not None:
        message = f"{said.file}: {said.name} is a partial of {part}, not a class"
        why = "tools are methods of a class, and TRL creates its objects with environment.config"
        yield context.finding(
            message, key, why, fix=f"python: {said.file}:{part}, and the partial's arguments under config", mark=mark
        )
    elif read(said.path, said.name) is None:
        message = f"not checked: what {said.name} is; its source does not show it"
        why = found if isinstance(found, str) else f"it is defined at {found.at}"
        yield context.finding(message, key, why, severity="not-checked", mark=mark)
    try:
        imported_beside(said.path)
    except (OSError, ValueError) as error:
        because = [f"a run copies everything that {WHO[section]} imports from its folder into the run folder"]
        told = (error.strerror if isinstance(error, OSError) else None) or str(error)
        fix = "move its code into the file or its folder, or install the package elsewhere"
        yield context.finding(told, key, because, fix=fix, mark=mark)


def _partial_of(path: str, name: str) -> str | None:
    """The name that a functools.partial wraps, None for anything else."""
    match module_of(path).bound.get(name, [(None, False)])[-1][0]:
        case ast.Call(func=ast.Name(id="partial") | ast.Attribute(attr="partial"), args=[ast.Name(id=part), *_]):
            return part
    return None


def _may_be(path: str, name: str, kind: str) -> bool:
    """Whether the file defines a name of the kind; imported names do not count."""
    found = definition(path, name)
    return isinstance(found, Definition) and isinstance(found.node, ast.ClassDef) == (kind == "class")
