"""Finds the engine of a plan, by its name in contract/host/engines.py."""

import importlib

from grpo_recipes.contract.errors import Refusal
from grpo_recipes.contract.host.engines import ENGINES
from grpo_recipes.contract.plan import Plan
from grpo_recipes.engines.base import Engine


def engine_of(plan: Plan) -> Engine:
    """The engine that starts the run. Raises Refusal for one that this grpo-run does not have."""
    name = plan.world.engine
    if name not in ENGINES:
        raise Refusal.of(
            f"the plan is for the engine {name!r}, which this grpo-run does not have",
            because=f"it has {', '.join(ENGINES)}, and another one would start another run",
            fix="the grpo-run that made the plan, or the recipe again with launch.engine: local",
        )
    engine = importlib.import_module(f"grpo_recipes.engines.{name}").ENGINE
    assert isinstance(engine, Engine)
    return engine
