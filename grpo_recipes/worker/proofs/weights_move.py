"""After two optimizer steps the trained tensors have changed, and no LoRA B is still zero.

Catches: an adapter that only seems to train (loss and reward are logged, but the final adapter equals the initial one),
tensors that were never passed to the optimizer, an optimizer step that does nothing, and a learning rate too small for
weights in bfloat16. A tensor has to move only after a step with a learning rate above 0 and a nonzero gradient for it:
a warm-up starts at 0, and groups without variance have no gradient. Until then the proof is postponed, and prints that.
If all weights are trained, only some have to move, since updates below the spacing of the dtype are lost; a LoRA B
starts at 0, where no update is lost.
Source: trl issue 3150; PEFT 0.21.2 initialises lora_B with zeros.
"""

from grpo_recipes.worker.proofs.proof import Proof, Statement

ID = "PRF005"
PROOF = Statement(ID, "movement")
SHOWN_NAMES = 3
PLANNED = "every LoRA B nonzero, trained tensors changed, all of them in the optimizer"


def prove(due: set[str], moved: set[str], zero: set[str], left_out: set[str], kind: str, after: int) -> Proof:
    """Checks that the tensors moved.

    due: names with a gradient to move by. moved: names that changed. zero: LoRA B tensors that are all zeros. left_out:
    trainable tensors that the optimizer does not have. kind: "lora" or "full". after: optimizer steps.
    """
    what = "adapter" if kind == "lora" else "weights"
    matrices = {name for name in due if "lora_B" in name}
    shown = f"{what} moved after {after} steps: {len(due & moved)}/{len(due)} tensors with a gradient"
    still = zero & due
    if due & moved and not still and not left_out:
        lost = len(due - moved)
        shown += f", all {len(matrices)} LoRA B nonzero" if matrices else ""
        shown += f" ({lost} updates below the spacing of the dtype)" if lost else ""
        return PROOF.holds(shown)
    if left_out:
        observed = f"{len(left_out)} trainable tensors are not in the optimizer: {_names(left_out)}"
        because = "they became trainable, or were replaced, after the optimizer was made"
        fix = "look for a callback or patch that changes the model after the trainer was built"
    elif still:
        observed = f"{len(still)} of {len(matrices)} LoRA B are zero after {after} steps: {_names(still)}"
        because = "they had a gradient, so the optimizer's step did not reach them"
        fix = "look for a callback, patch or optimizer that skips or resets these tensors"
    else:
        observed = f"none of {len(due)} tensors with a gradient changed in {after} steps"
        because = "the optimizer's step did nothing, or each update is below the spacing of the weights' dtype"
        fix = "model.dtype: float32, a larger learning_rate, or a different optimizer"
    return PROOF.fails(shown, observed=observed, planned=PLANNED, because=because, fix=fix)


def postponed(steps: int) -> Proof:
    """Returns the proof that cannot be checked yet."""
    reason = "no nonzero gradient so far (groups without variance, or a learning rate of 0)"
    return PROOF.unseen(f"movement not proved after {steps} step{'' if steps == 1 else 's'}: {reason}")


def _names(names: set[str]) -> str:
    return ", ".join(sorted(names)[:SHOWN_NAMES]) + (" and others" if len(names) > SHOWN_NAMES else "")
