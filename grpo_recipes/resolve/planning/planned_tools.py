"""Plans tools, environments and rollouts: their files and the digests of their contents."""

import os
from collections.abc import Mapping
from typing import Any, Literal

from grpo_recipes.contract.plan_sections import (
    Ancestor,
    EnvironmentClass,
    Forebear,
    Rollout,
    ScriptedTurn,
    Tool,
    weights_sha256,
)
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.said_tools import SaidCode, code_of_section, tools_of_recipe
from grpo_recipes.user_files.ancestor import StartingPoint, ancestor_of, continues
from grpo_recipes.user_files.digests import READ_FOR_A_PLAN_BYTES, file_content, folder_content
from grpo_recipes.user_files.functions.documented import read_function
from grpo_recipes.user_files.reward_imports import modules_beside


def plan_tools(context: Context) -> tuple[Tool, ...]:
    """The tools, in the order of the recipe."""
    tools = []
    for tool in tools_of_recipe(context):
        function = read_function(tool.path, tool.name)
        tools.append(
            Tool(
                **_pin(tool),
                is_async=None if function is None else function.is_async,
                timeout=tool.timeout,
            )
        )
    return tuple(tools)


def plan_environment(context: Context) -> EnvironmentClass | None:
    """The class of the environment, None without one."""
    code = code_of_section(context, "environment")
    if code is None:
        return None
    config, timeout = dict(context.mapping("environment.config")), float(str(context.value("environment.timeout")))
    return EnvironmentClass(**_pin(code), config=config, timeout=timeout)


def plan_environments(context: Context) -> dict[str, EnvironmentClass]:
    """Several environments, by the names that rows use; {} without any."""
    environments = {}
    for index, item in enumerate(context.items("environments")):
        key, name = ("environments", index, "python"), str(item["name"])
        file, _, class_name = str(item["python"]).rpartition(":")
        path = os.path.normpath(os.path.join(context.source.directory(key), file))
        pinned = _pin(SaidCode(key, file, path, class_name)) | {"name": name}
        config: dict[str, object] = dict(item["config"])
        environments[name] = EnvironmentClass(**pinned, config=config, timeout=float(str(item["timeout"])))
    return environments


def plan_rollout(context: Context) -> Rollout | None:
    """The function that makes the completions, None without one."""
    code = code_of_section(context, "rollout")
    return None if code is None else Rollout(**_pin(code))


def _pin(code: SaidCode) -> dict[str, Any]:
    """The file of each function, and its digest."""
    return {
        "name": code.name,
        "target": f"{os.path.basename(code.path)}:{code.name}",
        "path": code.path,
        "sha256": file_content(code.path).sha256,
        "imports": {file: file_content(beside).sha256 for file, beside in modules_beside(code.path).items()},
    }


def turns_to_play(context: Context) -> tuple[ScriptedTurn, ...]:
    """The turns that the recipe lets a preflight play instead of the model."""
    turns = context.value("preflight.turns")
    return tuple(ScriptedTurn(**turn) for turn in turns) if isinstance(turns, list) else ()


def plan_ancestor(context: Context) -> Ancestor | None:
    """The starting point of the recipe; its folder is read within the limits of a plan."""
    ancestor = ancestor_of(context.source)
    if not isinstance(ancestor, StartingPoint):
        return None
    is_folder = os.path.isdir(ancestor.weights)
    files = _small(ancestor.weights) if is_folder else {}
    return Ancestor(
        use=_use(context, ancestor),
        name=ancestor.name,
        named=ancestor.place,
        run=ancestor.run,
        plan_sha256=ancestor.plan_sha256,
        step=ancestor.step,
        source="folder" if is_folder else "hub",
        path=ancestor.weights,
        commit=ancestor.commit,
        weights_sha256=weights_sha256(files),
        files=files,
        quantization=ancestor.quantization,
        dtype=ancestor.dtype,
        before=_before(ancestor.plan),
    )


def merges_other_modules(context: Context) -> bool:
    """Whether a merged adapter has copies of whole modules, which may untie tied embeddings."""
    ancestor = ancestor_of(context.source)
    if not isinstance(ancestor, StartingPoint) or ancestor.adapter is None or continues(context.source):
        return False
    shape = ancestor.shape(context.facts)
    return any(shape.get(name) for name in ("modules_to_save", "trainable_token_indices"))


def _use(context: Context, point: StartingPoint) -> Literal["weights", "merge", "continue"]:
    if point.adapter is None:
        return "weights"
    return "continue" if continues(context.source) else "merge"


def _small(path: str) -> dict[str, str]:
    """The digests of a small, readable folder; a launch reads the others."""
    try:
        content = folder_content(path, most_bytes=READ_FOR_A_PLAN_BYTES)
    except OSError:
        return {}
    return {} if content is None else content.files


def _before(plan: Mapping[str, Any]) -> tuple[Forebear, ...]:
    """The lineage of a run: its own ancestor, and the earlier ones."""
    own = plan.get("extends") or plan.get("ancestor")
    if not isinstance(own, dict):
        return ()
    further = own.get("before")
    rows = [own, *(further if isinstance(further, list) else [])]
    return tuple(_forebear(row) for row in rows if isinstance(row, dict))


def _forebear(row: Mapping[str, Any]) -> Forebear:
    step = row.get("step")
    texts = [row.get(key) for key in ("plan_sha256", "weights_sha256")]
    plan, weights = (text if isinstance(text, str) else None for text in texts)
    return Forebear(str(row.get("use")), str(row.get("name")), plan, weights, step if isinstance(step, int) else None)
