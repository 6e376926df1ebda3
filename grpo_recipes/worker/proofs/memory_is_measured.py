"""The peak of memory in the first step is shown; it never fails.

The resident memory of the largest process, and the largest peak that torch took of a GPU. Longer completions and
the optimizer's state, made in the first step, can still raise it.
Source: getrusage(2), torch.cuda.max_memory_allocated.
"""

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs.proof import Proof, holds
from grpo_recipes.worker.proofs.seen import FirstStep

ID = "PRF009"
NAME = "memory"


def prove(plan: Plan, seen: tuple[FirstStep, ...]) -> Proof:
    """The largest peaks over all processes."""
    shown = f"memory {max(one.memory_gib for one in seen):.1f} GiB"
    gpus = [one.gpu_gib for one in seen if one.gpu_gib is not None]
    return holds(ID, NAME, shown + (f", GPU {max(gpus):.1f} GiB" if gpus else ""))
