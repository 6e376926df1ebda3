"""The trained tokens are the sampled tokens, turn by turn, with the same probabilities.

Between two turns a conversation may become text and then tokens again. Tokenizing the text again can give different
tokens than the policy sampled. The loss then credits the policy for tokens that it did not choose, with wrong
probabilities, and the run silently drifts, or collapses late. TRL continues from the sampled tokens; a rollout, a patch
or a chat template that rewrites earlier turns may not. Catches: turns that are tokenized again, lost or reordered, and
turns whose context differs from the one that they were sampled in.

The same tokens can still be scored in a different conversation: with replies that the attention mask hides, at a
different temperature, or shifted by a column. The proof therefore compares the loss's log-probabilities of the policy's
tokens, in all turns, with a plain forward pass over each conversation as it was sampled. It checks first and later
turns separately, since replies change only the later ones. Measured on a CPU in float32, models of 0.1 to 0.4 million
parameters: at most 1e-6 on average; with hidden replies 0.05 and more. The bounds are those of PRF010. With dropout in
the policy, scores cannot be compared.
Source: trl's grpo_trainer.py, _generate_single_turn, _tool_call_loop and _get_per_token_logps_and_entropies.
"""

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs.proof import Proof, Statement
from grpo_recipes.worker.proofs.sampler_is_the_policy import BOUNDS, mean, together
from grpo_recipes.worker.proofs.seen import FirstStep, Sampled

ID = "PRF020"
PROOF = Statement(ID, "turns")
TURNS = ("first turns", "later turns")


def prove(plan: Plan, processes: tuple[FirstStep, ...]) -> Proof:
    """Compares the tokens and scores of the first step's completions with those of their turns."""
    rows = [row for process in processes if process.turns is not None for row in process.turns.rows]
    if not rows:
        return PROOF.unseen("turns not checked: no completion came from the trainer's own generation")
    for process in processes:
        for index, row in enumerate(process.turns.rows if process.turns is not None else ()):
            if row.unknown is not None:
                return _other_tokens(f"completion {index + 1} of rank {process.rank}", row.unknown)
    words = f"{sum(row.turns for row in rows)} turns trained as they were sampled"
    scored = {which: _compare(processes, index) for index, which in enumerate(TURNS)}
    most = BOUNDS.get(processes[0].precision.compute or "", BOUNDS["bfloat16"])
    compared = [comparison for comparison in scored.values() if comparison is not None and comparison.tokens]
    for which, comparison in scored.items():
        if comparison is not None and comparison.tokens and not mean(comparison) <= most:
            return _other_scores(which, comparison, most)
    if not compared:
        reasons = (comparison.reason for process in processes for comparison in process.scored)
        reason = next(filter(None, reasons), "no scores were recorded")
        return PROOF.holds(f"{words}; log-probs not compared: {reason}")
    tokens = sum(comparison.tokens for comparison in compared)
    figures = f"max {max(comparison.most for comparison in compared):.1e} of {tokens} tokens"
    return PROOF.holds(f"{words}, |log-prob difference| {figures}")


def _compare(processes: tuple[FirstStep, ...], index: int) -> Sampled | None:
    return together([process.scored[index] for process in processes if process.scored])


def _other_tokens(which: str, token: int) -> Proof:
    observed = f"{which} does not consist of the sampled tokens: it differs at or after token {token + 1}"
    return PROOF.fails(
        observed,
        planned="the tokens that the generator returned in each turn, after the tokens that it received",
        because="tokenizing text again can give different tokens than were sampled",
        fix="look for code that tokenizes text again between turns, and a chat template that changes earlier turns",
    )


def _other_scores(which: str, comparison: Sampled, most: float) -> Proof:
    shown = f"|log-prob difference| of {which} mean {mean(comparison):.1e}"
    return PROOF.fails(
        shown,
        observed=f"in {which} the loss scores samples differently than the policy did: log-probabilities differ by"
        f" {mean(comparison):.2g} on average and by {comparison.most:.2g} at most, over {comparison.tokens} tokens",
        planned=f"at most {most:g} on average",
        because="the loss sees a different conversation than the policy, or scores at a different temperature",
        fix="look for code that replaces the trainer's loss, its attention mask or its scores; or use trl"
        " 1.16.0 or newer",
    )
