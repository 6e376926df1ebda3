"""The policy called a tool in the first step. Where it did not, a word with what it wrote instead; the run goes on.

A model that was not taught the format of its template writes something near it, which no parser takes for a call, and
the run trains single turns without a word. The same where every reply is dropped: TRL leaves a reply out, and ends the
completion, where it would make it longer than max_completion_length.
Source: trl 1.16.0 grpo_trainer.py, _tool_call_loop; the metric tools/call_frequency.
"""

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs.proof import Proof, Statement
from grpo_recipes.worker.proofs.seen import FirstStep

ID = "PRF021"
PROOF = Statement(ID, "calls of tools")


def prove(plan: Plan, seen: tuple[FirstStep, ...]) -> Proof:
    """How often tools were called, and whether a reply was told."""
    turns = [one.turns for one in seen if one.turns is not None]
    calls = next((one.calls for one in turns if one.calls is not None), None)
    if calls is None:
        return PROOF.unseen("calls of tools not seen: nothing was logged of them")
    if not calls:
        written = next((text for one in turns for text in one.written), "")
        begins = f"; the first completion begins {written!r}" if written else ""
        return PROOF.unseen(f"NO TOOL WAS CALLED{begins}")
    if not any(row.replies for one in turns for row in one.rows):
        limit = plan.arguments.GRPOConfig.get("max_completion_length")
        return PROOF.unseen(f"NO REPLY OF A TOOL FITS into the {limit} tokens of a completion")
    return PROOF.holds(f"{calls:.2g} calls of tools a completion")
