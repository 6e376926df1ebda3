"""Provides a small, complete plan."""

import dataclasses

from grpo_recipes.contract.plan import Data, Model, Plan, Reward, Tokenizer
from grpo_recipes.contract.plan_machine import Arguments, Batch, World
from grpo_recipes.contract.plan_sections import Expect, Guards
from grpo_recipes.schemas.running import GuardsSection

MODEL = "/models/small"
HERE = World("local", 1, 1, "cpu", "single")


def small_plan(world: World = HERE, **changes: object) -> Plan:
    """Returns a plan of two steps that trains on this world, with changes to its sections."""
    data = Data("file", "/data/train.jsonl", "json", None, "train", None, "{{ q }}", "standard", None, {})
    plan = Plan(
        plan=1,
        grpo_recipes="0.1.0",
        name="addition",
        recipe={},
        stack={},
        world=world,
        batch=Batch(8, 1, 1, 8, 1),
        settings=(),
        arguments=Arguments(GRPOConfig={"max_steps": 2}, model_init_kwargs={"dtype": "float32"}),
        model=Model("folder", MODEL),
        tokenizer=Tokenizer(),
        data=data,
        rewards=(Reward("shipped", "exact_match", "exact_match", 1.0),),
        evaluation=None,
        guards=Guards(**GuardsSection().model_dump()),
        shims={},
        expect=Expect(world.num_processes, 0, "full", None, {}),
        deepspeed=None,
        environment={},
    )
    return dataclasses.replace(plan, **changes)  # type: ignore[arg-type]
