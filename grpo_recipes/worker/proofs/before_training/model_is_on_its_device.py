"""Each process holds the whole model on its own device, if the plan loads it there.

Catches: a quantized model that was loaded onto a different GPU than its process has, or spread over several; it cannot
be moved afterwards. A model that the trainer moves is checked in the first step (PRF002).
Source: trl 1.16.0 grpo_trainer.py (device_map), transformers 5.23.0 quantizers.
"""

from collections.abc import Iterator

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.planned import ON_OWN_DEVICE
from grpo_recipes.worker.proofs.before_training.compared import Compared, Loaded

ID = "PRF016"
NAME = "device"


def compare(plan: Plan, seen: Loaded) -> Iterator[Compared]:
    """The devices of the parameters."""
    if plan.arguments.model_init_kwargs.get("device_map") == ON_OWN_DEVICE:
        yield Compared("device", seen.device, ", ".join(seen.parameter_devices))
