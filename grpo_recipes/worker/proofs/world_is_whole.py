"""All planned processes train together, each reached by a sum over all of them.

Catches: ranks that each train alone, into the same folder and with a batch that is too small (a launcher that
started other processes than planned, a backend that found no partner), and another ZeRO stage than the planned one.
Before the first step the launcher was believed; here the processes are seen at work, by a real collective.
Source: accelerate 1.15.0 state.py, where a process without a backend believes itself the only one.
"""

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs.proof import Proof, Statement
from grpo_recipes.worker.proofs.seen import FirstStep

ID = "PRF001"
PROOF = Statement(ID, "world")


def prove(plan: Plan, seen: tuple[FirstStep, ...]) -> Proof:
    """The number of processes and the ZeRO stage."""
    size, stage = plan.expect.world_size, plan.expect.deepspeed_stage
    answered = {one.reached for one in seen} | {one.processes for one in seen} | {len(seen)}
    stages = sorted({one.deepspeed_stage for one in seen})
    shown = f"world {min(answered)}/{size}" + (f", ZeRO-{stage}" if stage else "")
    if answered == {size} and stages == [stage]:
        return PROOF.holds(shown)
    return PROOF.fails(
        shown,
        found=f"{' or '.join(map(str, sorted(answered)))} processes, ZeRO stage {', '.join(map(str, stages))}",
        planned=f"{size} processes, ZeRO stage {stage}",
        because="prompts_per_step and the gradient are shared out over the planned processes",
        fix="start with launch.sh of the run folder, or plan again for this machine",
    )
