"""transformers' generate draws tokens with the probabilities that the policy gives them.

The policy writes its completions token by token, with a cache of earlier tokens, in a padded batch, and often without
the wrappers of training. The loss computes them in one pass. The proof takes the log-probabilities of the tokens that
generate drew, before top_k and similar filters, and compares them with one pass of the live policy over each row
alone, without cache and padding. Catches: a cache that is lost, so that each token is drawn without the prompt, as
transformers 5.24 does with models whose own code takes `past_key_values`; shifted positions; a mask that hides
tokens; an adapter that is disabled, or old, while the policy generates; a different model. Without the proof,
training would silently continue on completions of a different policy. In completions with tools the proof compares
all turns, without replies.

It runs in generations 1, 4, 16 and every 64th of a run, also of a resumed one, with two completions per process.
Since a new adapter changes nothing, a disabled one shows only in a later generation: when the policy has moved ten
times as far as generation and loss differed before, generation must follow it. Dropout makes both random, so a model
that trains with it is compared only while its adapter is still zero. With trl 0.14, which generates inside its loss,
nothing is compared.

Bounds on the mean |difference|, by the dtype that the policy computes in; a 4-bit model has that of bfloat16.
Measured on a CPU with transformers 5.23.0, SmolLM2-135M at temperature 1: float32 2.5e-6, float16 5e-3, bfloat16
4e-2, nf4 with float32 1.5e-2 and with bfloat16 4e-2; positions shifted by one 0.07 to 0.11, a mask over half of the
prompt 2 and more, without the prompt 4 and more. The quickstart's model: 2e-8 to 2e-7 in float32, positions shifted
by one 0.15. No GPU has confirmed the noise of bfloat16, so its bound is four times as large, and a shift by one
position passes there.
Source: transformers 4.48.3, 5.23.0 and 5.24.0 generation/utils.py (_sample, _get_logits_processor); trl's
grpo_trainer.py (_generate_single_turn).
"""

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs.proof import Proof, Statement
from grpo_recipes.worker.proofs.sampler_is_the_policy import coarsest, mean, together
from grpo_recipes.worker.proofs.seen import FirstStep, Sampled

ID = "PRF038"
PROOF = Statement(ID, "generation")
BOUNDS = {"float32": 1e-3, "float16": 2e-2, "bfloat16": 0.15}
OF_CORRECT_RUNS = {"float32": 1e-5, "float16": 5e-3, "bfloat16": 4e-2}
"""Largest mean difference in correct runs: below it, nothing shows that generation stayed behind."""
CLEAR = 10
STAYED = 0.5


def prove(plan: Plan, processes: tuple[FirstStep, ...]) -> Proof:
    """Checks the difference over all processes in the first generation."""
    every = [process.sampled for process in processes if process.sampled is not None]
    comparison = together(every)
    if comparison is None or not comparison.tokens + comparison.cut:
        unknown = "the loss has none of the recorded rows" if every else "no generation was recorded"
        reason = next((comparison.reason for comparison in every if comparison.reason), unknown)
        return PROOF.unseen(f"drawn tokens not compared: {reason}")
    return _judged(plan, processes[0].precision.compute, comparison)


def prove_later(plan: Plan, compute: str | None, noise: Sampled, now: Sampled, steps: int) -> Proof:
    """Checks the difference in a later generation, where generation must also have followed the policy.

    steps: optimizer steps before it. noise: the largest difference while both were the same policy.
    """
    proof = _judged(plan, compute, now)
    moved = now.moved / now.moved_tokens if now.moved_tokens else 0.0
    of_correct_runs = coarsest(OF_CORRECT_RUNS, plan, compute, compute)
    if not proof.ok:
        return proof
    if moved < max(of_correct_runs, CLEAR * mean(noise) if noise.tokens else 0.0):
        return PROOF.unseen(proof.shown)
    if mean(now) < max(STAYED * moved, of_correct_runs):
        return PROOF.holds(f"{proof.shown}, after the policy moved by {moved:.1e} in {steps} steps")
    return _failed(now, STAYED * moved, f"; the policy has moved by {moved:.2g} in {steps} steps")


def _judged(plan: Plan, compute: str | None, comparison: Sampled) -> Proof:
    if not comparison.tokens:
        return PROOF.fails(
            "drawn by a different model",
            observed=f"generate drew {comparison.cut} tokens without a call of the policy",
            planned="the policy generates",
            because="a different model, such as a copy, generates in the policy's place",
            fix="no code that replaces the trainer's or the model's generate",
        )
    most = coarsest(BOUNDS, plan, compute, compute)
    if mean(comparison) <= most:
        figures = f"mean {mean(comparison):.1e}, max {comparison.most:.1e} of {comparison.tokens} tokens"
        return PROOF.holds(f"generate draws from the policy: |log-prob difference| {figures}")
    return _failed(comparison, most, "")


def _failed(comparison: Sampled, most: float, moved: str) -> Proof:
    return PROOF.fails(
        f"|log-prob difference| mean {mean(comparison):.1e}",
        observed=f"log-probabilities of the tokens that generate drew and those of the policy differ by"
        f" {mean(comparison):.2g} on average and {comparison.most:.2g} at most, over {comparison.tokens} tokens{moved}",
        planned=f"at most {most:.2g} on average",
        because="generate computes something else than the policy: its cache of earlier tokens is lost, positions or"
        " the attention mask are wrong, or the adapter is disabled or old",
        fix="releases of transformers, peft and the model's own code that work together: grpo-run doctor; for a model"
        " with its own code, no --accept SHM033",
    )
