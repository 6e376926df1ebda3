"""The policy called a tool in the first step. If not, the proof prints what it wrote instead, and the run continues.

A model that was not trained on its template's format for calls writes something similar that no parser recognizes, and
the run silently trains single turns. The same happens if every reply is dropped: if a reply would make the completion
longer than max_completion_length, TRL leaves it out and ends the completion.
Source: trl's grpo_trainer.py, _tool_call_loop; the metric tools/call_frequency.
"""

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs.proof import Proof, Statement
from grpo_recipes.worker.proofs.seen import FirstStep

ID = "PRF021"
PROOF = Statement(ID, "calls to tools")


def prove(plan: Plan, processes: tuple[FirstStep, ...]) -> Proof:
    """Shows how often tools were called, and whether a reply fitted."""
    all_turns = [process.turns for process in processes if process.turns is not None]
    calls = next((turns.calls for turns in all_turns if turns.calls is not None), None)
    if calls is None:
        return PROOF.unseen("tool calls not checked: TRL did not log them")
    if not calls:
        written = next((text for turns in all_turns for text in turns.written), "")
        begins = f"; the first completion begins {written!r}" if written else ""
        return PROOF.unseen(f"NO TOOL WAS CALLED{begins}")
    if not any(row.replies for turns in all_turns for row in turns.rows):
        limit = plan.arguments.GRPOConfig.get("max_completion_length")
        return PROOF.unseen(f"NO TOOL REPLY FITS into the {limit} tokens of a completion")
    return PROOF.holds(f"{calls:.2g} tool calls per completion")
