"""A plan.json that an older release of grpo-run wrote, in the words of this one."""

from typing import Any

from grpo_recipes.contract.host.engines import ENGINES, engine_for

_MICRO_BATCH = "GRPOConfig.per_device_train_batch_size"


def as_now(content: dict[Any, Any]) -> dict[Any, Any]:
    """The content of a plan with what was said otherwise or not at all; unchanged where it is of this release.

    Before `job` a plan had `slurm`, and no engine for machines that are started by hand; before `batch` only the fields
    that GRPOConfig is given. What is not as any release wrote it is left as it is, for the reader to name.
    """
    world = content.get("world")
    if not isinstance(world, dict):
        return content
    if "job" not in content:
        content = content | {"job": content.get("slurm") or {}, "world": world | {"engine": _engine(content, world)}}
    if "batch" not in content:
        content = content | {"batch": _batch(content, world)}
    return content


def _engine(content: dict[Any, Any], world: dict[Any, Any]) -> object:
    vllm, engine = content.get("vllm"), world.get("engine")
    server = vllm.get("server") if isinstance(vllm, dict) else None
    machines = world.get("num_nodes", 1) + bool(isinstance(server, dict) and server.get("own_node"))
    return engine_for(engine, machines) if engine in ENGINES else engine


def _batch(content: dict[Any, Any], world: dict[Any, Any]) -> object:
    """The batch; its micro-batch is the recipe's, in completions, also where it was passed in prompts."""
    try:
        given = content["arguments"]["GRPOConfig"]
        passed = {name: value for name, value in given.items() if isinstance(value, int)}
        of_the_recipe = {setting["key"]: setting["value"] for setting in content["settings"]}
        micro_batch = int(of_the_recipe.get(_MICRO_BATCH, passed.get("per_device_train_batch_size", 1)))
        at_once = micro_batch * int(world["num_processes"])
    except (KeyError, TypeError, ValueError, AttributeError):
        return None
    accumulation = max(1, passed.get("gradient_accumulation_steps", 1))
    feeds = passed.get("steps_per_generation") or passed.get("generation_batch_size", 0) // max(1, at_once)
    generations = max(1, passed.get("num_generations", 1))
    feeds = feeds or accumulation
    return {
        "micro_batch": micro_batch,
        "accumulation": accumulation,
        "steps_per_generation": feeds,
        "num_generations": generations,
        "prompts": max(1, feeds * at_once // generations),
    }
