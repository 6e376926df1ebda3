"""vLLM and the policy give the same probability to the tokens that vLLM sampled.

vLLM has a second copy of the model. It returns the log-probability of each token that it samples; a plain forward pass
of the live policy over the same tokens, with the same temperature and truncation, gives the policy's. Catches: a server
with a different model, weights that an earlier run left on it, a weight sync that does nothing although the trainer
starts from different weights than the base model's, a different dtype than planned, and sampling settings that one side
ignores. Without the proof, training would silently continue on the completions of a different model. In completions
with tools the proof compares all turns, without the replies.

Bounds on the mean |difference|, by the lower precision of both sides. Measured with vllm 0.31.0 on a CPU, models of 0.1
to 0.4 million parameters, also with temperature, top_k, top_p, min_p and repetition_penalty: float32 0 to 7e-7,
bfloat16 3e-4 to 1.1e-2; other weights of the same shape 0.27 and more, an output layer that was not synced 0.03.
On an H200 with vllm 0.26.0 a model of 0.5B in bfloat16 gave means of 5e-3 to 1.5e-2 over 17 steps of two runs. An
unplanned dtype can stay below the bound: the checks before the first step compare it by name. A quantized policy has no
bound.
"""

from collections.abc import Mapping

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs.proof import Proof, Statement
from grpo_recipes.worker.proofs.seen import FirstStep, Sampled

ID = "PRF010"
PROOF = Statement(ID, "sampler")
BOUNDS = {"float32": 1e-3, "float16": 2e-2, "bfloat16": 5e-2}
# A lower precision can cause a difference up to this; a larger one means different weights.
OF_PRECISION = 5e-2
MOST_CUT = 0.05


def prove(plan: Plan, processes: tuple[FirstStep, ...]) -> Proof:
    """Checks the difference over all processes in the first generation."""
    every = [process.sampled for process in processes if process.sampled is not None]
    comparison = together(every)
    if comparison is None or not comparison.tokens + comparison.cut:
        reason = next((comparison.reason for comparison in every if comparison.reason), "no generation was recorded")
        return PROOF.unseen(f"vLLM's samples not compared: {reason}")
    most = bound(plan, processes[0].precision.compute, comparison.dtype)
    if most is None:
        return PROOF.unseen(f"{shown(comparison)}, of a quantized policy: no bound is known")
    if mean(comparison) <= most and comparison.cut <= MOST_CUT * (comparison.tokens + comparison.cut):
        return PROOF.holds(shown(comparison))
    return _failed(comparison, most)


def together(comparisons: list[Sampled]) -> Sampled | None:
    """Returns the comparison over all processes, None if any process could not compare or nothing was compared."""
    if not comparisons or any(comparison.reason for comparison in comparisons):
        return None
    return Sampled(
        tokens=sum(comparison.tokens for comparison in comparisons),
        apart=sum(comparison.apart for comparison in comparisons),
        most=max(comparison.most for comparison in comparisons),
        moved=sum(comparison.moved for comparison in comparisons),
        moved_tokens=sum(comparison.moved_tokens for comparison in comparisons),
        cut=sum(comparison.cut for comparison in comparisons),
        dtype=comparisons[0].dtype,
    )


def mean(comparison: Sampled) -> float:
    """Returns the mean |difference| in nats."""
    return comparison.apart / comparison.tokens if comparison.tokens else float("inf")


def bound(plan: Plan, compute: str | None, dtype: str | None) -> float | None:
    """Returns the largest allowed mean, None if no bound is known. compute, dtype: of the policy and of vLLM."""
    if plan.arguments.BitsAndBytesConfig is not None and not plan.samples_a_copy:
        return None
    return coarsest(BOUNDS, plan, compute, dtype)


def coarsest(figures: Mapping[str, float], plan: Plan, compute: str | None, dtype: str | None) -> float:
    """Returns the figure of the coarser dtype; an unknown dtype is the coarsest.

    TRL keeps the adapter of a quantized model in bfloat16.
    """
    of_vllm = dtype or (None if plan.vllm is None else plan.vllm.dtype)
    of_policy = "bfloat16" if plan.arguments.BitsAndBytesConfig is not None else compute
    return max(figures.get(name or "", figures["bfloat16"]) for name in (of_policy, of_vllm))


def shown(comparison: Sampled) -> str:
    """Returns a few words for the block of proofs."""
    cut = f", {comparison.cut} more that the policy's sampling excludes" if comparison.cut else ""
    figures = f"mean {mean(comparison):.1e}, max {comparison.most:.1e} of {comparison.tokens} tokens"
    return f"vLLM samples the policy: |log-prob difference| {figures}{cut}"


def _failed(sampled: Sampled, most: float) -> Proof:
    because = "vLLM computes in a different dtype, or samples with different settings"
    if mean(sampled) > OF_PRECISION:
        because = "vLLM has different weights: the server has a different model, or the weight sync did not reach it"
    return PROOF.fails(
        f"|log-prob difference| mean {mean(sampled):.1e}",
        observed=f"log-probabilities of vLLM and of the policy differ by {mean(sampled):.2g} on average and"
        f" {sampled.most:.2g} at most, over {sampled.tokens} tokens; the policy's sampling excludes {sampled.cut} more",
        planned=f"at most {most:g} on average",
        because=because,
        fix="the recipe's model on the server (its /v1/models names it), the same dtype on both sides,"
        " compatible versions of trl and vllm: grpo-run doctor",
    )
