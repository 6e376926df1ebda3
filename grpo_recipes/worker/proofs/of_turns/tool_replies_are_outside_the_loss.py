"""No token of a tool's reply is in the loss, and every token that the policy wrote is.

A completion with tools is one row of tokens: a turn of the policy, the reply that the chat template makes of the tool's
result, the next turn. Trained on replies, the policy learns to write what tools say instead of calling them; with turns
left out it learns less than it sampled. Catches: a trainer or a patch that builds the loss from the mask of the
completion alone, a mask that is shifted against its tokens, a loss that does not use the mask. The proof finds replies
by what the generator received and returned in each turn, not by the mask. It also checks the gradient of the loss for
each token: on a reply it is zero.
Source: trl 1.16.0 grpo_trainer.py, _tool_call_loop and tool_mask.
"""

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs.proof import Proof, Statement
from grpo_recipes.worker.proofs.seen import FirstStep, TurnedRow

ID = "PRF019"
PROOF = Statement(ID, "tool replies")
PLANNED = "a loss over what the policy wrote, in all of its turns, and not over replies"


def prove(plan: Plan, seen: tuple[FirstStep, ...]) -> Proof:
    """Checks the masks and gradients of all completions of the first step."""
    rows = [row for process in seen if process.turns is not None for row in process.turns.rows]
    for process in seen:
        for index, row in enumerate(process.turns.rows if process.turns is not None else ()):
            if (fault := _wrong(row)) is not None:
                return _failed(f"completion {index + 1} of rank {process.rank}: {fault}")
    with_replies = [row for row in rows if row.told]
    if not with_replies:
        return PROOF.unseen("tool replies not seen: no completion of the first loss has one")
    words = f"{sum(row.replies for row in with_replies)} tool replies outside the loss"
    has_gradients = any(row.told_moved is not None for row in with_replies)
    return PROOF.holds(words + (", without a gradient" if has_gradients else ""))


def _wrong(row: TurnedRow) -> str | None:
    if row.told_trained:
        return f"{row.told_trained} of {row.told} tokens of replies are in the loss"
    if row.told_moved:
        return f"the loss has a gradient for {row.told_moved} of {row.told} tokens of replies, whatever its mask"
    if row.own_left_out:
        return f"{row.own_left_out} of {row.own} tokens that the policy wrote are not in the loss"
    return None


def _failed(found: str) -> Proof:
    return PROOF.fails(
        found,
        planned=PLANNED,
        because="the policy would learn to write what tools say, or would not learn from all that it wrote",
        fix="look for code that replaces the trainer's masks, its loss or its tool loop; or use trl 1.16.0 or newer",
    )
