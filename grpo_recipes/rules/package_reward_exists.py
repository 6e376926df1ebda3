"""A reward from an installed package exists, and takes its options.

`python: trl.rewards:think_format_reward` names a module of a package and a name in it. A function that takes
completions, or any keyword, is the reward itself: TRL calls it, with the options as keywords. Any other function, or a
class, creates the reward: it is called once, with only the options. A wrong module or name raises ImportError or
AttributeError in the training processes; a wrong option raises TypeError or disappears in **kwargs. grpo-run reads the
package's source and never runs it before you consent. With `--target` the rule does not check packages, because what
is installed here may differ from the target.
"""

import ast
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from grpo_recipes.contract.findings.finding import Finding, Patch, Path
from grpo_recipes.contract.findings.wording import nearest_words
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.user_files.functions.definitions import (
    CALLED_WITH,
    Definition,
    definition,
    function_of,
    module_of,
    reads_any_keyword,
)
from grpo_recipes.user_files.local_files import name_list
from grpo_recipes.user_files.reward_imports import names_module

if TYPE_CHECKING:
    from grpo_recipes.user_files.functions.installed import PackageReward

ID = "RWD008"


def check(context: Context) -> Iterator[Finding]:
    for index, reward in enumerate(context.items("rewards")):
        python = reward.get("python")
        if python is not None and names_module(str(python)):
            from grpo_recipes.user_files.functions.installed import package_reward

            options = reward.get("options")
            named = package_reward(context.stack, str(python))
            yield from _of_one(context, ("rewards", index), named, options if isinstance(options, dict) else {})


def _of_one(context: Context, path: Path, named: "PackageReward", options: dict[str, object]) -> Iterator[Finding]:
    key_path, mark = (*path, "python"), context.source.mark((*path, "python"))
    if named.file is None:
        yield _not_here(context, key_path, named)
    elif named.found is None:
        names = _names(named.file)
        is_bound = named.name in module_of(named.file).bound
        close = nearest_words(named.name, names, cutoff=0.5) if not is_bound else []
        right = f"{named.module}:{close[0]}" if close else None
        message = f"{named.module} of {named.package} {named.release} has no function {named.name}"
        because = f"its functions are {name_list(names)}" if names else "it has no functions"
        fix = f"python: {right}" if right else None
        yield context.finding(
            message, "rewards", because, fix=fix, patch=[Patch(key_path, right)] if right else (), mark=mark
        )
    elif isinstance(named.found, str) or named.is_factory is None:
        how = named.found if isinstance(named.found, str) else f"it is decorated at {named.found.at}"
        message = f"not checked: how {named.name} is called; its source does not show it"
        yield context.finding(message, "rewards", how, severity="not-checked", mark=mark)
    elif isinstance(named.found.node, ast.ClassDef):
        yield from _of_class(context, path, named, named.found, options)
    else:
        yield from _of_function(context, path, named, named.found, options)


def _not_here(context: Context, path: Path, named: "PackageReward") -> Finding:
    mark, module = context.source.mark(path), named.module
    is_own = module.partition(".")[0] in sys.stdlib_module_names
    if context.stack.declared and not is_own:
        message = f"not checked: whether {module} has {named.name}"
        because = f"{context.stack.origin} is declared, and what is installed here may differ"
        return context.finding(message, "rewards", because, severity="not-checked", mark=mark)
    file = f"{module.replace('.', '/')}.py"
    is_file = os.path.isfile(os.path.join(context.source.directory(path), file))
    fix = (
        f"python: {file}:{named.name}"
        if is_file
        else f"python: FILE.py:{named.name}, or install the package that has it"
    )
    message = f"no installed package has a module {module}"
    why = f"{module} belongs to Python's standard library" if is_own else f"{sys.executable} does not find its source"
    return context.finding(
        message, "rewards", why, fix=fix, patch=[Patch(path, f"{file}:{named.name}")] if is_file else (), mark=mark
    )


def _names(file: str) -> list[str]:
    names = [name for name in module_of(file).callables if not name.startswith("_")]
    return [name for name in names if isinstance(definition(file, name), Definition)]


def _of_class(
    context: Context, path: Path, named: "PackageReward", definition: Definition, options: dict[str, object]
) -> Iterator[Finding]:
    """Findings for a class that makes the reward from the options: TRL calls its objects."""
    from grpo_recipes.user_files.functions.classes import class_of

    read = class_of(definition.path, definition.node.name) if isinstance(definition.node, ast.ClassDef) else None
    if read is None:
        return
    where = f"it is defined in {definition.at} of {named.package} {named.release}"
    if not read.may_have("__call__"):
        message = f"{named.name} is a class without __call__"
        because = ["TRL calls an object of the class as the reward", where]
        fix = "write a function in your own file that uses it"
        yield context.finding(message, "rewards", because, fix=fix, mark=context.source.mark((*path, "python")))
    elif made := read.methods.get("__init__"):
        without_default = [parameter.name for parameter in made.function.parameters if parameter.is_needed]
        needed = [name for name in without_default if name not in options]
        yield from _lacking(context, path, named.name, needed, where)


def _lacking(context: Context, path: Path, name: str, options: list[str], where: str) -> Iterator[Finding]:
    for option in options:
        message = f"{name} needs the option {option}"
        because = ["TRL gets the reward by calling it once with the options", where]
        yield context.finding(
            message, "rewards", because, fix=f"options: {{{option}: ...}}", mark=context.source.mark(path)
        )


def _of_function(
    context: Context, path: Path, named: "PackageReward", definition: Definition, options: dict[str, object]
) -> Iterator[Finding]:
    assert isinstance(definition.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    function, mark = function_of(definition.node), context.source.mark(path)
    where = f"it is defined in {definition.at} of {named.package} {named.release}"
    if not named.is_factory and not function.takes_any_keyword:
        missing = [keyword for keyword in CALLED_WITH if keyword not in function.parameters]
        message = f"{named.name} has no **kwargs"
        because = [f"TRL also passes {', '.join(missing)} and every column", where]
        yield context.finding(
            message, "rewards", because, fix=f"write a function in your own file that calls {named.name}", mark=mark
        )
    known = [name for name in function.parameters if named.is_factory or name not in CALLED_WITH]
    given = set(options)
    for option in [] if reads_any_keyword(definition.node) else [name for name in options if name not in known]:
        close = nearest_words(option, [name for name in known if name not in given], cutoff=0.5)
        given.update(close[:1])
        at = (*path, "options", option)
        yield context.finding(
            f"{named.name} has no option {option}",
            "rewards",
            [f"its options are {', '.join(known)}" if known else "it has no options", where],
            fix=f"{close[0]}: {options[option]}" if close else f"remove {option}",
            patch=[Patch(at, remove=True), *([Patch((*path, "options", close[0]), options[option])] if close else [])],
        )
    if named.is_factory:
        needed = [name for name in function.required if name not in given]
        yield from _lacking(context, path, named.name, needed, where)
