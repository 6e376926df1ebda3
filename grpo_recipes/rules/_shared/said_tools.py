"""Tools, environment and rollout of a recipe and where their files are, for rules and for the plan."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from grpo_recipes.contract.findings.finding import Path
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.user_files.functions.classes import DocumentedClass, Method, class_of
from grpo_recipes.user_files.functions.documented import Documented, read_function

OF_TRL = ("reset", "get_reward")
"""Methods of an environment that TRL calls itself."""


class SaidCode(NamedTuple):
    """A tool, the environment or the rollout. place: its key in the recipe. file: as it is written there.

    path: absolute. timeout: of a tool, in seconds.
    """

    place: Path
    file: str
    path: str
    name: str
    timeout: float = 0.0


def code_of_section(context: Context, section: str) -> SaidCode | None:
    """The class of `environment` or the function of `rollout`; None without that section, or if it is wrong."""
    key, key_path = f"{section}.python", (section, "python")
    if not context.has_section(section) or key not in context.settings:
        return None
    file, _, name = context.text(key).rpartition(":")
    return SaidCode(key_path, file, os.path.normpath(os.path.join(context.source.directory(key_path), file)), name)


def tools_of_recipe(context: Context) -> Iterator[SaidCode]:
    """The tools of the recipe in their order. Raises NotJudged if they are already known to be wrong."""
    for index, tool in enumerate(context.items("tools")):
        key_path: Path = ("tools", index, "python")
        file, _, name = str(tool["python"]).rpartition(":")
        path = os.path.normpath(os.path.join(context.source.directory(key_path), file))
        yield SaidCode(key_path, file, path, name, float(tool["timeout"]))


class ToldFunction(NamedTuple):
    """A function that the model can call. section: "tools" or "environment". place and file: where it is named."""

    section: str
    place: Path
    file: str
    function: Documented


def functions_for_model(context: Context) -> Iterator[ToldFunction]:
    """Tools, then the methods of the environment, that exist, with their source; without decorated ones."""
    for tool in tools_of_recipe(context):
        try:
            function = read_function(tool.path, tool.name)
        except (OSError, SyntaxError, ValueError):
            continue
        if function is not None and not function.is_decorated:
            yield ToldFunction("tools", tool.place, tool.file, function)
    environment = read_environment(context)
    if environment is not None:
        code, environment_class = environment
        for method in methods_for_model(environment_class).values():
            if not method.function.is_decorated:
                yield ToldFunction("environment", code.place, code.file, method.function)


def read_environment(context: Context) -> tuple[SaidCode, DocumentedClass] | None:
    """The environment if its class exists, otherwise None."""
    code = code_of_section(context, "environment")
    try:
        environment_class = None if code is None else class_of(code.path, code.name)
    except (OSError, SyntaxError, ValueError):
        return None
    return None if code is None or environment_class is None else (code, environment_class)


def read_environments(context: Context) -> dict[str, DocumentedClass]:
    """Each environment whose class exists, by the name that its own reward has: the class's, or that of several."""
    items = context.items("environments")
    if not items:
        environment = read_environment(context)
        return {} if environment is None else {environment[0].name: environment[1]}
    classes: dict[str, DocumentedClass] = {}
    for index, item in enumerate(items):
        file, _, name = str(item["python"]).rpartition(":")
        folder = context.source.directory(("environments", index, "python"))
        with contextlib.suppress(OSError, SyntaxError, ValueError):
            own = class_of(os.path.normpath(os.path.join(folder, file)), name)
            classes |= {} if own is None else {str(item["name"]): own}
    return classes


def methods_for_model(environment_class: DocumentedClass) -> Mapping[str, Method]:
    """The methods of an environment that the model can call, by name; TRL uses them in the order of their names."""
    names = sorted(name for name in environment_class.methods if not name.startswith("_") and name not in OF_TRL)
    return {name: environment_class.methods[name] for name in names}


def turns_of(context: Context) -> str | None:
    """The section that makes completions of several turns, "tools" or "environment"; None without either."""
    if context.value("tools"):
        return "tools"
    return "environment" if code_of_section(context, "environment") is not None else None
