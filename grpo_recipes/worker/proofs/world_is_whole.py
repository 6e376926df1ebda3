"""All planned processes train together, and a sum over all of them reaches each one.

Catches: ranks that each train alone, into the same folder and with too small a batch (a launcher that started
different processes than planned, a backend that found no partner), and a different ZeRO stage than planned. Before the
first step grpo-run trusts the launcher; this proof counts the processes with a real collective.
Source: accelerate's state.py, where a process without a backend assumes that it is the only one.
"""

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs.proof import Proof, Statement
from grpo_recipes.worker.proofs.seen import FirstStep

ID = "PRF001"
PROOF = Statement(ID, "world")


def prove(plan: Plan, processes: tuple[FirstStep, ...]) -> Proof:
    """Compares the number of processes and the ZeRO stage with the plan."""
    size, stage = plan.expect.world_size, plan.expect.deepspeed_stage
    answered = {len(processes)}.union(*({process.reached, process.processes} for process in processes))
    stages = sorted({process.deepspeed_stage for process in processes})
    shown = f"world {min(answered)}/{size}" + (f", ZeRO-{stage}" if stage else "")
    if answered == {size} and stages == [stage]:
        return PROOF.holds(shown)
    return PROOF.fails(
        shown,
        observed=f"{' or '.join(map(str, sorted(answered)))} processes, ZeRO stage {', '.join(map(str, stages))}",
        planned=f"{size} processes, ZeRO stage {stage}",
        because="prompts_per_step and the gradient are divided among the planned processes",
        fix="start with launch.sh of the run folder, or plan again for this machine",
    )
