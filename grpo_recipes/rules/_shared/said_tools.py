"""Tools, environment and rollout of a recipe and where their files are, for rules and for the plan."""

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from grpo_recipes.contract.findings.finding import Path
from grpo_recipes.contract.tasks import SPECS
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.user_files.functions.classes import DocumentedClass, Method, class_of
from grpo_recipes.user_files.functions.documented import Documented, documented

OF_TRL = ("reset", "get_reward")
"""Methods of an environment that TRL calls itself."""


class SaidCode(NamedTuple):
    """A tool, the environment or the rollout. place: its key in the recipe. file: as it is written there.

    path: absolute; "" for one of TRL's own, which is in no file. timeout: of a tool, in seconds.
    """

    place: Path
    file: str
    path: str
    name: str
    timeout: float = 0.0


def said_code(context: Context, section: str) -> SaidCode | None:
    """The class of `environment` or the function of `rollout`; None without that section, or if it is wrong."""
    key, place = f"{section}.python", (section, "python")
    if not context.has_section(section) or key not in context.settings:
        return None
    file, _, name = context.text(key).rpartition(":")
    if context.text(key) in SPECS:
        return SaidCode(place, file, "", name)
    return SaidCode(place, file, os.path.normpath(os.path.join(context.source.directory(place), file)), name)


def said_tools(context: Context) -> Iterator[SaidCode]:
    """The tools of the recipe in their order. Raises NotJudged if they are already known to be wrong."""
    for index, tool in enumerate(context.items("tools")):
        place: Path = ("tools", index, "python")
        file, _, name = str(tool["python"]).rpartition(":")
        path = os.path.normpath(os.path.join(context.source.directory(place), file))
        yield SaidCode(place, file, path, name, float(tool["timeout"]))


class ToldFunction(NamedTuple):
    """A function that the model can call. section: "tools" or "environment". place and file: where it is named."""

    section: str
    place: Path
    file: str
    function: Documented


def told_functions(context: Context) -> Iterator[ToldFunction]:
    """Tools, then the methods of the environment, that exist, with their source; without decorated ones."""
    for tool in said_tools(context):
        try:
            function = documented(tool.path, tool.name)
        except (OSError, SyntaxError, ValueError):
            continue
        if function is not None and not function.is_decorated:
            yield ToldFunction("tools", tool.place, tool.file, function)
    environment = read_environment(context)
    if environment is not None:
        said, found = environment
        for method in called_methods(found).values():
            if not method.function.is_decorated:
                yield ToldFunction("environment", said.place, said.file, method.function)


def read_environment(context: Context) -> tuple[SaidCode, DocumentedClass] | None:
    """The environment if its class exists, otherwise None."""
    said = said_code(context, "environment")
    try:
        found = None if said is None or not said.path else class_of(said.path, said.name)
    except (OSError, SyntaxError, ValueError):
        return None
    return None if said is None or found is None else (said, found)


def read_environments(context: Context) -> dict[str, DocumentedClass]:
    """Each environment whose class exists, by the name that its own reward has: the class's, or that of several."""
    items = context.items("environments")
    if not items:
        one = read_environment(context)
        return {} if one is None else {one[0].name: one[1]}
    found: dict[str, DocumentedClass] = {}
    for index, item in enumerate(items):
        file, _, name = str(item["python"]).rpartition(":")
        folder = context.source.directory(("environments", index, "python"))
        with contextlib.suppress(OSError, SyntaxError, ValueError):
            own = class_of(os.path.normpath(os.path.join(folder, file)), name)
            found |= {} if own is None else {str(item["name"]): own}
    return found


def called_methods(found: DocumentedClass) -> Mapping[str, Method]:
    """The methods of an environment that the model can call, by name; TRL uses them in the order of their names."""
    names = sorted(name for name in found.methods if not name.startswith("_") and name not in OF_TRL)
    return {name: found.methods[name] for name in names}


def turns_of(context: Context) -> str | None:
    """The section that makes completions of several turns, "tools" or "environment"; None without either."""
    if context.value("tools"):
        return "tools"
    return "environment" if said_code(context, "environment") is not None else None
