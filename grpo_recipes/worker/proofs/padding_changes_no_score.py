"""A row has the same log-probabilities with less padding as with TRL's padding.

The shim `less_padding` aligns the rows of a micro-batch at their ends and cuts it to the longest row. Catches: a
model whose positions or layers depend on a token's column, on the width of the batch or on padding, and a patch that
replaces the scoring method. The last micro-batch of the first step is scored in both ways, in evaluation mode; only
rows that the shim moves are compared, within the bounds of PRF010 for the mean |difference|. Measured in float32: 1e-6;
with absolute positions: above 0.1.
Source: trl's grpo_trainer.py, _get_per_token_logps_and_entropies.
"""

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs.proof import Proof, Statement
from grpo_recipes.worker.proofs.sampler_is_the_policy import BOUNDS, mean, together
from grpo_recipes.worker.proofs.seen import FirstStep

ID = "PRF036"
PROOF = Statement(ID, "padding")


def prove(plan: Plan, processes: tuple[FirstStep, ...]) -> Proof:
    """Checks the difference over one micro-batch of each process."""
    comparison = together([process.unpadded for process in processes if process.unpadded is not None])
    if comparison is None:
        return PROOF.holds("TRL's padding is used; run.json has the reason under shims")
    if not comparison.tokens:
        return PROOF.holds("the last micro-batch is padded as TRL pads it")
    most = BOUNDS.get(processes[0].precision.compute or "", BOUNDS["bfloat16"])
    shown = f"scores with less padding are TRL's, mean |difference| {mean(comparison):.0e}"
    if mean(comparison) <= most:
        return PROOF.holds(shown)
    return PROOF.fails(
        f"mean |difference| {mean(comparison):.2g}",
        observed=f"log-probabilities with less padding and with TRL's differ by {mean(comparison):.2g} on average and"
        f" {comparison.most:.2g} at most, over {comparison.tokens} tokens",
        planned=f"at most {most:g} on average",
        because="the model's score of a token depends on its column, or on the padding next to it",
        fix="--accept SHM025, which pads as TRL does",
    )
