"""Tools, environment and rollout of a recipe and where their files are, for rules and for the plan; no rule itself."""

import os
from collections.abc import Iterator
from typing import NamedTuple

from grpo_recipes.contract.findings.finding import Path
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.user_files.functions.documented import Documented, documented


class SaidTool(NamedTuple):
    """One tool. place: its key in the recipe. file: as it is written there, path: absolute. timeout: in seconds."""

    place: Path
    file: str
    path: str
    name: str
    timeout: float


class SaidCode(NamedTuple):
    """The environment or the rollout. place: its key in the recipe. file: as it is written there, path: absolute."""

    place: Path
    file: str
    path: str
    name: str


def said_code(context: Context, section: str) -> SaidCode | None:
    """The class of `environment` or the function of `rollout`; None without that section, or where it is wrong."""
    key, place = f"{section}.python", (section, "python")
    if not context.has_section(section) or key not in context.settings:
        return None
    file, _, name = context.text(key).rpartition(":")
    return SaidCode(place, file, os.path.normpath(os.path.join(context.source.directory(place), file)), name)


def said_tools(context: Context) -> Iterator[SaidTool]:
    """The tools of the recipe in their order. Raises NotJudged where they are already known to be wrong."""
    tools = context.value("tools")
    for index, tool in enumerate(tools if isinstance(tools, list) else []):
        place: Path = ("tools", index, "python")
        file, _, name = str(tool["python"]).rpartition(":")
        path = os.path.normpath(os.path.join(context.source.directory(place), file))
        yield SaidTool(place, file, path, name, float(tool["timeout"]))


def read_tools(context: Context) -> Iterator[tuple[SaidTool, Documented]]:
    """The tools whose function is there and is what its source says: none that is decorated."""
    for tool in said_tools(context):
        try:
            function = documented(tool.path).get(tool.name)
        except (OSError, SyntaxError, ValueError):
            continue
        if function is not None and not function.is_decorated:
            yield tool, function
