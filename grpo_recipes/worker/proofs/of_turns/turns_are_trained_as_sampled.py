"""The tokens that are trained are those that were sampled, turn by turn, with the probabilities that they had.

Between two turns a conversation becomes text and tokens again. Tokens that are made anew from text need not be those
that the policy drew: the loss then gives it credit for tokens it did not choose, with probabilities that it did not
have, and a run drifts or breaks down late and without a word. TRL goes on from the tokens themselves; a rollout, a
patch or a chat template that rewrites earlier turns does not. Catches: turns that are tokenized anew, lost or put in
another order, and context that is not the one that a turn was sampled after.

The same tokens can still be scored in another conversation: with replies that the attention mask hides, at another
temperature, a column beside. So the log-probabilities that the loss has of what the policy wrote, in all turns and
without the replies, are held against those of a plain forward pass over each conversation as it was sampled. First
turns and later ones are judged each by themselves, since the replies change the later ones alone. Measured on a CPU in
float32, models of 0.1 to 0.4 million parameters: at most 1e-6 on average; with hidden replies 0.05 and more. The bounds
are those of PRF010. Dropout in the policy leaves nothing to compare.
Source: trl 1.16.0 grpo_trainer.py, _generate_single_turn, _tool_call_loop and _get_per_token_logps_and_entropies.
"""

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs.proof import Proof, Statement
from grpo_recipes.worker.proofs.sampler_is_the_policy import BOUNDS, mean, together
from grpo_recipes.worker.proofs.seen import FirstStep, Sampled

ID = "PRF020"
PROOF = Statement(ID, "turns")
TURNS = ("first turns", "later turns")


def prove(plan: Plan, seen: tuple[FirstStep, ...]) -> Proof:
    """The tokens and scores of all completions of the first step against those of their turns."""
    rows = [row for one in seen if one.turns is not None for row in one.turns.rows]
    if not rows:
        return PROOF.unseen("turns not seen: no completion came from the trainer's own generation")
    for one in seen:
        for place, row in enumerate(one.turns.rows if one.turns is not None else ()):
            if row.unknown is not None:
                return _other_tokens(f"completion {place + 1} of rank {one.rank}", row.unknown)
    words = f"{sum(row.turns for row in rows)} turns trained as they were sampled"
    scored = {which: _scored(seen, place) for place, which in enumerate(TURNS)}
    most = BOUNDS.get(seen[0].precision.compute or "", BOUNDS["bfloat16"])
    compared = [found for found in scored.values() if found is not None and found.tokens]
    for which, found in scored.items():
        if found is not None and found.tokens and not mean(found) <= most:
            return _other_scores(which, found, most)
    if not compared:
        reason = next((found.reason for one in seen for found in one.scored if found.reason), "none was seen")
        return PROOF.holds(f"{words}; log-probs not compared: {reason}")
    figures = f"max {max(found.most for found in compared):.1e} of {sum(found.tokens for found in compared)} tokens"
    return PROOF.holds(f"{words}, |log-prob difference| {figures}")


def _scored(seen: tuple[FirstStep, ...], place: int) -> Sampled | None:
    return together([one.scored[place] for one in seen if one.scored])


def _other_tokens(which: str, token: int) -> Proof:
    found = f"{which} is not made of what was sampled: it differs at or after token {token + 1}"
    return PROOF.fails(
        found,
        planned="the tokens of each turn as the generator gave them, each after the tokens that it was given",
        because="text that is tokenized anew need not give the tokens that were drawn",
        fix="look for code that makes tokens from text between turns, and a chat template that changes earlier turns",
    )


def _other_scores(which: str, found: Sampled, most: float) -> Proof:
    shown = f"|log-prob difference| of {which} mean {mean(found):.1e}"
    return PROOF.fails(
        shown,
        found=f"in {which} the loss scores what was sampled otherwise than the policy did: log-probabilities differ by"
        f" {mean(found):.2g} on average and by {found.most:.2g} at most, over {found.tokens} tokens",
        planned=f"at most {most:g} on average",
        because="the loss sees another conversation than the policy saw, or scores at another temperature",
        fix="look for code that replaces the trainer's loss, its attention mask or its scores; a release of trl from"
        " 1.16.0",
    )
