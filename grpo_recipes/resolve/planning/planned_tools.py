"""What completions are made with beside the model, as a plan has it: the files and what is in them."""

import os

from grpo_recipes.contract.planned_tools import ScriptedTurn, Tool
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._tools.said_tools import said_tools
from grpo_recipes.user_files.digests import file_content
from grpo_recipes.user_files.functions.documented import documented
from grpo_recipes.user_files.reward_imports import imported_beside


def planned_tools(context: Context) -> tuple[Tool, ...]:
    """The tools, in the order of the recipe."""
    found = []
    for said in said_tools(context):
        function = documented(said.path).get(said.name)
        imports = {file: file_content(beside).sha256 for file, beside in imported_beside(said.path).items()}
        found.append(
            Tool(
                name=said.name,
                target=f"{os.path.basename(said.path)}:{said.name}",
                path=said.path,
                sha256=file_content(said.path).sha256,
                imports=imports,
                is_async=function is not None and function.is_async,
                timeout=said.timeout,
            )
        )
    return tuple(found)


def scripted_turns(context: Context) -> tuple[ScriptedTurn, ...]:
    """What the recipe has a preflight say in the place of the model."""
    turns = context.value("preflight.turns")
    return tuple(ScriptedTurn(**turn) for turn in turns) if isinstance(turns, list) else ()
