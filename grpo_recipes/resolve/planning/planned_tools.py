"""Plans tools, environments and rollouts: their files and the digests of their contents."""

import os
from collections.abc import Mapping
from typing import Any, Literal

from grpo_recipes.contract.plan_sections import (
    Ancestor,
    EnvironmentClass,
    Forebear,
    Package,
    Rollout,
    ScriptedTurn,
    Tool,
    weights_sha256,
)
from grpo_recipes.contract.tasks import OPENREWARD
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.said_tools import SaidCode, said_code, said_tools
from grpo_recipes.user_files.ancestor import StartingPoint, ancestor_of, continues
from grpo_recipes.user_files.digests import READ_FOR_A_PLAN_BYTES, file_content, folder_content
from grpo_recipes.user_files.functions.documented import documented
from grpo_recipes.user_files.reward_imports import imported_beside


def planned_tools(context: Context) -> tuple[Tool, ...]:
    """The tools, in the order of the recipe."""
    found = []
    for tool in said_tools(context):
        function = documented(tool.path, tool.name)
        found.append(
            Tool(
                **_pinned(tool),
                is_async=None if function is None else function.is_async,
                timeout=tool.timeout,
            )
        )
    return tuple(found)


def planned_environment(context: Context) -> EnvironmentClass | None:
    """The class of the environment, None without one."""
    said = said_code(context, "environment")
    if said is None:
        return None
    config, timeout = dict(context.mapping("environment.config")), float(str(context.value("environment.timeout")))
    if not said.path:
        from grpo_recipes.user_files.functions.installed import package_reward

        target = f"{said.file}:{said.name}"
        found = package_reward(context.stack, target)
        config |= {"split": context.text("dataset.split")} if target == OPENREWARD else {}
        package = Package(found.package, found.release, None)
        return EnvironmentClass(said.name, target, "", None, config=config, timeout=timeout, package=package)
    return EnvironmentClass(**_pinned(said), config=config, timeout=timeout)


def planned_environments(context: Context) -> dict[str, EnvironmentClass]:
    """Several environments, by the names that rows use; {} without any."""
    found = {}
    for index, item in enumerate(context.items("environments")):
        place, name = ("environments", index, "python"), str(item["name"])
        file, _, class_name = str(item["python"]).rpartition(":")
        path = os.path.normpath(os.path.join(context.source.directory(place), file))
        pinned = _pinned(SaidCode(place, file, path, class_name)) | {"name": name}
        config: dict[str, object] = dict(item["config"])
        found[name] = EnvironmentClass(**pinned, config=config, timeout=float(str(item["timeout"])))
    return found


def planned_rollout(context: Context) -> Rollout | None:
    """The function that makes the completions, None without one."""
    said = said_code(context, "rollout")
    return None if said is None else Rollout(**_pinned(said))


def _pinned(code: SaidCode) -> dict[str, Any]:
    """The file of each function, and its digest."""
    return {
        "name": code.name,
        "target": f"{os.path.basename(code.path)}:{code.name}",
        "path": code.path,
        "sha256": file_content(code.path).sha256,
        "imports": {file: file_content(beside).sha256 for file, beside in imported_beside(code.path).items()},
    }


def scripted_turns(context: Context) -> tuple[ScriptedTurn, ...]:
    """The turns that the recipe lets a preflight play instead of the model."""
    turns = context.value("preflight.turns")
    return tuple(ScriptedTurn(**turn) for turn in turns) if isinstance(turns, list) else ()


# The run that a plan starts from: its weights, their digests, and its own lineage.


def planned_ancestor(context: Context) -> Ancestor | None:
    """The starting point of the recipe; its folder is read within the limits of a plan."""
    found = ancestor_of(context.source)
    if not isinstance(found, StartingPoint):
        return None
    is_folder = os.path.isdir(found.weights)
    files = _small(found.weights) if is_folder else {}
    return Ancestor(
        use=_use(context, found),
        name=found.name,
        named=found.place,
        run=found.run,
        plan_sha256=found.plan_sha256,
        step=found.step,
        source="folder" if is_folder else "hub",
        path=found.weights,
        commit=found.commit,
        weights_sha256=weights_sha256(files),
        files=files,
        quantization=found.quantization,
        dtype=found.dtype,
        before=_before(found.plan),
    )


def merges_other_modules(context: Context) -> bool:
    """Whether a merged adapter has copies of whole modules, which may untie tied embeddings."""
    found = ancestor_of(context.source)
    if not isinstance(found, StartingPoint) or found.adapter is None or continues(context.source):
        return False
    shape = found.shape(context.facts)
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
