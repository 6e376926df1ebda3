"""The peak of memory in the first step is shown; it never fails.

The resident memory of the largest process, and the largest peak that torch took of a GPU, with what the plan expects
of it at most. Longer completions and the optimizer's state, made in the first step, can still raise it: it is what was
held so far. run.json has the peak of each phase of the whole run, each beside its estimate, and `--smoke` ends with it.
Source: getrusage(2), VmHWM of proc_pid_status(5), torch.cuda.max_memory_allocated.
"""

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs.proof import Proof, Statement
from grpo_recipes.worker.proofs.seen import FirstStep

ID = "PRF009"
PROOF = Statement(ID, "memory")


def prove(plan: Plan, seen: tuple[FirstStep, ...]) -> Proof:
    """The largest peaks over all processes."""
    shown = f"memory so far {max(one.memory_gib for one in seen):.1f} GiB"
    gpus = [one.gpu_gib for one in seen if one.gpu_gib is not None]
    if not gpus:
        return PROOF.holds(shown)
    estimated = None if plan.memory is None else plan.memory.peak()
    expected = "" if estimated is None else f" (estimated {estimated[1] / 2**30:.1f} for the {estimated[0]} phase)"
    return PROOF.holds(f"{shown}, GPU {max(gpus):.1f} GiB{expected}")
