"""Every token that the policy wrote is in the loss, and no token of a tool's reply is.

A completion with tools is one row of tokens: a turn of the policy, the rendered reply of the tool, the next turn, and
so on. A policy that is trained on replies learns to write them instead of calling tools; if turns are left out, it
learns from less than it sampled. Catches: a trainer or a patch that builds the loss only from the completion mask, a
mask that is shifted against its tokens, and a loss that ignores the mask. The proof finds replies by the generator's
inputs and outputs in each turn, not by the mask. It also checks that the gradient of the loss is zero on replies.
Source: trl's grpo_trainer.py, _tool_call_loop and tool_mask.
"""

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs.proof import Proof, Statement
from grpo_recipes.worker.proofs.seen import FirstStep, TurnedRow

ID = "PRF019"
PROOF = Statement(ID, "tool replies")
PLANNED = "a loss over what the policy wrote, in all of its turns, and not over replies"


def prove(plan: Plan, processes: tuple[FirstStep, ...]) -> Proof:
    """Checks the masks and gradients of all completions of the first step."""
    rows = [row for process in processes if process.turns is not None for row in process.turns.rows]
    for process in processes:
        for index, row in enumerate(process.turns.rows if process.turns is not None else ()):
            if (fault := _wrong(row)) is not None:
                return _failed(f"completion {index + 1} of rank {process.rank}: {fault}")
    with_replies = [row for row in rows if row.reply]
    if not with_replies:
        return PROOF.unseen("tool replies not checked: no completion of the first loss has one")
    words = f"{sum(row.replies for row in with_replies)} tool replies outside the loss"
    has_gradients = any(row.reply_moved is not None for row in with_replies)
    return PROOF.holds(words + (", without a gradient" if has_gradients else ""))


def _wrong(row: TurnedRow) -> str | None:
    if row.reply_trained:
        return f"{row.reply_trained} of {row.reply} reply tokens are in the loss"
    if row.reply_moved:
        return f"the loss has a gradient for {row.reply_moved} of {row.reply} reply tokens, despite its mask"
    if row.own_left_out:
        return f"{row.own_left_out} of {row.own} tokens that the policy wrote are not in the loss"
    return None


def _failed(observed: str) -> Proof:
    return PROOF.fails(
        observed,
        planned=PLANNED,
        because="the policy would learn to write tool replies, or would not learn from all of its own tokens",
        fix="look for code that replaces the trainer's masks, its loss or its tool loop; or use trl 1.16.0 or newer",
    )
