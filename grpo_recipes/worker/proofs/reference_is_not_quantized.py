"""A reference model exists if the plan needs one, in the planned dtype and never quantized.

With an adapter the reference is the same model with the adapter off; without beta there is no reference; a full run
with beta above 0 loads the initial weights a second time. Catches: the copy of a 4-bit model ("You can't train a model
that has been loaded in 8-bit or 4-bit precision on a different device", trl issue 2760), and a reference in a different
dtype than the policy's, which makes the KL term measure rounding. An unneeded reference is shown, and allowed if TRL
always makes one: trl 0.14 and 0.15 do so even with beta 0, releases up to 0.18 with an adapter under ZeRO-3.
Source: trl 0.14.0 to 1.16.0 grpo_trainer.py (ref_model).
"""

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs.precision_is_planned import planned_dtypes
from grpo_recipes.worker.proofs.proof import Proof, Statement
from grpo_recipes.worker.proofs.seen import FirstStep, Reference

ID = "PRF007"
PROOF = Statement(ID, "reference")


def prove(plan: Plan, processes: tuple[FirstStep, ...]) -> Proof:
    """Compares the reference models of all processes with the plan."""
    beta = float(str(plan.arguments.GRPOConfig.get("beta", plan.expect.arguments.get("beta", 0.0))))
    is_needed = beta != 0.0 and plan.expect.trainable == "full"
    may_be = plan.expect.trainable == "full" or plan.world.strategy == "zero3"
    dtype = planned_dtypes(plan)["weights"]
    for process in processes:
        fault = _wrong(process.reference, dtype, is_needed=is_needed, may_be=may_be)
        if fault is not None:
            return _failed(fault, is_needed, dtype, beta)
    reference = processes[0].reference
    if reference is None:
        return PROOF.holds("no reference model")
    return PROOF.holds(f"reference {', '.join(reference.weights)}" + ("" if is_needed else ", not needed"))


def _wrong(reference: Reference | None, dtype: str | None, *, is_needed: bool, may_be: bool) -> str | None:
    if reference is None:
        return "none" if is_needed else None
    if reference.quantized:
        return f"a quantized reference model ({', '.join(reference.quantized)})"
    if not may_be:
        return f"a reference model ({', '.join(reference.weights)})"
    return (
        None
        if dtype in (None, *reference.weights[:1]) and len(reference.weights) == 1
        else (f"a reference model in {' and '.join(reference.weights)}")
    )


def _failed(observed: str, is_needed: bool, dtype: str | None, beta: float) -> Proof:
    reason = f"beta is {beta} and every weight is trained" if is_needed else f"beta is {beta}"
    if not is_needed and beta:
        reason += " and the model without its adapter is the reference"
    return PROOF.fails(
        observed,
        planned=f"a reference model in {dtype or 'the dtype of the weights'}" if is_needed else "no reference model",
        because=f"{reason}; bitsandbytes, not the plan, places a quantized copy, and grpo-run computes no KL with it",
        fix="plan again with the packages that are installed here; lora: {...} needs no reference copy",
    )
