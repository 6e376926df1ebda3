"""After the policy has moved, vLLM samples from the moved policy.

Catches: a weight sync that does nothing or is incomplete (an adapter that was not merged, names that vLLM does not
know). The first generation cannot show this, because base and policy are still the same. The proof measures how far the
policy moved on tokens of the first generation. The first generation's difference is the noise between two programs.
Until the policy has moved ten times as far, nothing can be concluded, and the proof is postponed to a later generation:
the second, fourth, eighth and so on. If vLLM then differs by half of that distance or more, and by more than any
correct run, it has old weights. With a small learning rate this shows long before the bound of PRF010 would.

After that, every 64th generation is compared as well, and the policy's movement is counted from the last generation in
which both were the same. The run therefore also stops if the weight sync breaks later.

The noise depends on the prompt: in bfloat16 one run had means between 4e-7 and 1.4e-3, small where the policy was sure.
The proof therefore uses the largest noise so far, and concludes nothing from a difference below the largest of correct
runs.
"""

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs import sampler_is_the_policy as first
from grpo_recipes.worker.proofs.proof import Proof, Statement
from grpo_recipes.worker.proofs.seen import Sampled

ID = "PRF011"
PROOF = Statement(ID, "hand-over")
CLEAR = 10
GROWN = 5
LEAST = 1e-6
OF_CORRECT_RUNS = {"float32": 1e-5, "float16": 4e-3, "bfloat16": 1.5e-2}
"""Largest mean difference between two programs with the same policy; for bfloat16 measured on an H200."""
STAYED = 0.5


def prove(plan: Plan, compute: str | None, noise: Sampled, now: Sampled, steps: int) -> Proof:
    """Checks the difference at a later generation; the proof's `ok` is undecided while it is too early.

    steps: optimizer steps before it. noise: the largest difference while both were the same policy.
    """
    moved = now.moved / now.moved_tokens if now.moved_tokens else 0.0
    most = first.bound(plan, compute, now.dtype)
    if most is not None and first.mean(now) > max(most, GROWN * first.mean(noise)):
        return _stayed_behind(now, moved, most, steps)
    if moved < max(LEAST, CLEAR * first.mean(noise)):
        least = f"less than {CLEAR} times the noise between trainer and vLLM"
        return PROOF.unseen(f"weight sync not proved: the policy moved by {moved:.1e} in {steps} steps, {least}")
    if first.mean(now) >= STAYED * moved:
        if first.mean(now) <= first.coarsest(OF_CORRECT_RUNS, plan, compute, now.dtype):
            reason = f"vLLM is {first.mean(now):.1e} off, which may be rounding"
            return PROOF.unseen(f"weight sync not proved: the policy moved by {moved:.1e} in {steps} steps, {reason}")
        return _stayed_behind(now, moved, STAYED * moved, steps)
    return PROOF.holds(
        f"weights reach vLLM: the policy moved by {moved:.1e} in {steps} steps, vLLM is {first.mean(now):.1e} off",
    )


def not_seen(steps: int, reason: str) -> Proof:
    """Returns the proof for a run that was too short."""
    return PROOF.unseen(f"weight sync not proved after {steps} step{'' if steps == 1 else 's'}: {reason}")


def _stayed_behind(now: Sampled, moved: float, most: float, steps: int) -> Proof:
    return PROOF.fails(
        f"vLLM {first.mean(now):.1e} behind",
        observed=f"after {steps} steps the policy has moved by {moved:.2g} in log-probability, and vLLM's differ from"
        f" it by {first.mean(now):.2g} on average",
        planned=f"less than {most:.2g}: vLLM samples from the trained weights",
        because="the weights did not reach vLLM: the weight sync does nothing, or is incomplete",
        fix="compatible versions of trl and vllm: grpo-run doctor; no code that replaces TRL's sync_weights;"
        " generation.use_vllm: false trains without vLLM",
    )
