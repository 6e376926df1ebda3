"""Keeps DeepSpeed on the CPU from compiling its shared-memory collectives at start.

Defect: deepspeed compiles the op deepspeed_shm_comm in init_distributed on every Linux machine, which takes a minute or
more. If a process is killed during that time, it leaves a lock file, and every later run silently waits for it forever.
Seen: deepspeed 0.19.8. Without the op the same collectives use gloo, with the same results.
Remove when: deepspeed does not build the op by default, or its lock does not outlive its process.
"""

from grpo_recipes.contract.plan import Plan


def before_trainer(value: object, plan: Plan) -> None:
    """Marks the op as incompatible, so that it is not built."""
    import deepspeed

    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
