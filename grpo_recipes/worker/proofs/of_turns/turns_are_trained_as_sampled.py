"""The tokens that are trained are those that were sampled, turn by turn.

Between two turns a conversation becomes text and tokens again. Tokens that are made anew from text need not be those
that the policy drew: the loss then gives it credit for tokens it did not choose, with probabilities that it did not
have, and a run drifts or breaks down late and without a word. TRL goes on from the tokens themselves; a rollout, a
patch or a chat template that rewrites earlier turns does not. Catches: turns that are tokenized anew, lost or put in
another order, and context that is not the one that a turn was sampled after.
Source: trl 1.16.0 grpo_trainer.py, _generate_single_turn and _tool_call_loop.
"""

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs.proof import Proof, fails, holds
from grpo_recipes.worker.proofs.seen import FirstStep

ID = "PRF020"
NAME = "turns"


def prove(plan: Plan, seen: tuple[FirstStep, ...]) -> Proof:
    """The tokens of all completions of the first step against those of their turns."""
    rows = [row for one in seen if one.turns is not None for row in one.turns.rows]
    if not rows:
        return Proof(ID, NAME, None, "turns not seen: no completion came from the trainer's own generation")
    for one in seen:
        for place, row in enumerate(one.turns.rows if one.turns is not None else ()):
            if row.unknown is not None:
                return _failed(f"completion {place + 1} of rank {one.rank}", row.unknown)
    return holds(ID, NAME, f"{sum(row.turns for row in rows)} turns trained as they were sampled")


def _failed(which: str, token: int) -> Proof:
    found = f"{which} is not made of what was sampled: it differs at or after token {token + 1}"
    return fails(
        ID,
        NAME,
        found,
        found=found,
        planned="the tokens of each turn as the generator gave them, each after the tokens that it was given",
        because="text that is tokenized anew need not give the tokens that were drawn",
        fix="look for code that makes tokens from text between turns, and a chat template that changes earlier turns",
    )
