"""What completions are made with beside the model, as a plan has it: the files and what is in them."""

import os
from typing import Any

from grpo_recipes.contract.planned_tools import EnvironmentClass, Rollout, ScriptedTurn, Tool
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._tools.said_tools import SaidCode, SaidTool, said_code, said_tools
from grpo_recipes.user_files.digests import file_content
from grpo_recipes.user_files.functions.documented import documented
from grpo_recipes.user_files.reward_imports import imported_beside


def planned_tools(context: Context) -> tuple[Tool, ...]:
    """The tools, in the order of the recipe."""
    found = []
    for said in said_tools(context):
        function = documented(said.path, said.name)
        found.append(
            Tool(
                **_pinned(said),
                is_async=None if function is None else function.is_async,
                timeout=said.timeout,
            )
        )
    return tuple(found)


def planned_environment(context: Context) -> EnvironmentClass | None:
    """The class of the environment, None without one."""
    said = said_code(context, "environment")
    if said is None:
        return None
    config, timeout = dict(context.mapping("environment.config")), float(str(context.value("environment.timeout")))
    return EnvironmentClass(**_pinned(said), config=config, timeout=timeout)


def planned_rollout(context: Context) -> Rollout | None:
    """The function that makes the completions, None without one."""
    said = said_code(context, "rollout")
    return None if said is None else Rollout(**_pinned(said))


def _pinned(said: SaidTool | SaidCode) -> dict[str, Any]:
    """What says of each of them which file it is in, and what is in that."""
    return {
        "name": said.name,
        "target": f"{os.path.basename(said.path)}:{said.name}",
        "path": said.path,
        "sha256": file_content(said.path).sha256,
        "imports": {file: file_content(beside).sha256 for file, beside in imported_beside(said.path).items()},
    }


def scripted_turns(context: Context) -> tuple[ScriptedTurn, ...]:
    """What the recipe has a preflight say in the place of the model."""
    turns = context.value("preflight.turns")
    return tuple(ScriptedTurn(**turn) for turn in turns) if isinstance(turns, list) else ()
