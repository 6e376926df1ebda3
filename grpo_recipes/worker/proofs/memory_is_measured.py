"""The peak memory of the first step is shown; this proof never fails.

It shows the resident memory of the largest process, and the largest peak that torch allocated on a GPU, with the plan's
upper estimate. Longer completions, and the optimizer's state, which the first step creates, can still raise both.
run.json has the peak of each phase of the whole run with its estimate, and `--smoke` prints them at the end.
Source: getrusage(2), VmHWM of proc_pid_status(5), torch.cuda.max_memory_allocated.
"""

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs.proof import Proof, Statement
from grpo_recipes.worker.proofs.seen import FirstStep

ID = "PRF009"
PROOF = Statement(ID, "memory")


def prove(plan: Plan, processes: tuple[FirstStep, ...]) -> Proof:
    """Shows the largest peaks over all processes."""
    shown = f"memory so far {max(process.memory_gib for process in processes):.1f} GiB"
    gpus = [process.gpu_gib for process in processes if process.gpu_gib is not None]
    if not gpus:
        return PROOF.holds(shown)
    estimated = None if plan.memory is None else plan.memory.peak()
    expected = "" if estimated is None else f" (estimated {estimated[1] / 2**30:.1f} for the {estimated[0]} phase)"
    return PROOF.holds(f"{shown}, GPU {max(gpus):.1f} GiB{expected}")
