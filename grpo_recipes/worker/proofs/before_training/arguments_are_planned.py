"""The trainer's arguments, as GRPOConfig, Trainer and DeepSpeed leave them, are the planned ones.

Catches: a value that `__post_init__` recomputed, one that an environment variable or a launcher's configuration
replaced, and a default that differs between the planned release and the installed one. average_tokens_across_devices
has no meaning in one process; older releases of transformers switch it off there.
Source: trl 1.16.0 grpo_config.py, transformers 5.23.0 training_args.py.
"""

from collections.abc import Iterator

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs.before_training.compared import Compared, Loaded

ID = "PRF013"
NAME = "arguments"
OF_SEVERAL_PROCESSES = ("average_tokens_across_devices",)
NO_SUCH_ARGUMENT = "no such argument"


def compare(plan: Plan, seen: Loaded) -> Iterator[Compared]:
    """Each argument that the plan names."""
    for name, value in plan.expect.arguments.items():
        if name in OF_SEVERAL_PROCESSES and plan.expect.world_size == 1:
            continue
        yield Compared(f"GRPOConfig.{name}", value, seen.arguments.get(name, NO_SUCH_ARGUMENT))
