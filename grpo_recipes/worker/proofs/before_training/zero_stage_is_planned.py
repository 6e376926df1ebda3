"""The trainer shards with the planned ZeRO stage, before it shards anything in a step.

Catches: a launcher configuration that DeepSpeed does not read, which leaves each process with the whole model, and a
different stage than the planned one, which needs a different amount of memory. Without DeepSpeed the stage is 0.
Source: accelerate 1.15.0 state.py (deepspeed_plugin).
"""

from collections.abc import Iterator

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs.before_training.compared import Compared, Loaded

ID = "PRF012"
NAME = "ZeRO stage"


def compare(plan: Plan, seen: Loaded) -> Iterator[Compared]:
    """The stage."""
    yield Compared("DeepSpeed stage", plan.expect.deepspeed_stage, seen.deepspeed_stage)
