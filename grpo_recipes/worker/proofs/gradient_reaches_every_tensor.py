"""The loss is a finite number with a graph, and every trainable tensor that took part in it has a gradient.

In a group whose completions all have the same reward every advantage is zero, unless `--accept SHM024` leaves them as
TRL computes them.

Catches: "element 0 of tensors does not require grad" before it is raised (reentrant checkpointing with a frozen
embedding and no input gradients: TRL 0.14 and 0.15 with LoRA), an adapter that is turned off or detached, gradients
that are discarded before the optimizer sees them, and a loss that is NaN from the start, which the Trainer's own filter
hides. A gradient of zeros is not a failure: groups without variance have zero gradients, and so does every LoRA A in
the first step, since B is zero. A tensor whose module took no part in the loss (the vision tower for text rows) is
counted separately, and so are last layers of a vision tower that run without being used, such as LLaVA's. ZeRO does not
keep gradients, so there the proof watches them arrive.
Source: trl issue 3150; transformers' trainer.py (logging_nan_inf_filter).
"""

import math

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs.proof import Proof, Statement
from grpo_recipes.worker.proofs.seen import FirstStep, Gradient

ID = "PRF004"
PROOF = Statement(ID, "gradient")
SHOWN_NAMES = 3
TOWERS = ("vision_tower", "vision_model", "visual")
"""Names of the vision parts of models."""
PLANNED = "a finite loss, and a gradient for every trainable tensor in it (zeros are allowed)"


def prove(plan: Plan, processes: tuple[FirstStep, ...]) -> Proof:
    """Checks the loss and the gradients of the first step; a tensor needs a gradient on one process only."""
    losses = [loss for process in processes for loss in process.losses]
    strange = [loss for loss in losses if not math.isfinite(loss)]
    if strange:
        return PROOF.fails(
            f"loss {strange[0]}",
            observed=f"a loss of {strange[0]}",
            planned=PLANNED,
            because="it makes every weight that it reaches NaN; the usual cause is a dtype too small for the model",
            fix="model.dtype: float32, or bfloat16 instead of float16, or a smaller learning_rate",
        )
    noise = max(process.noise for process in processes)
    if noise:
        return PROOF.fails(
            f"advantages up to {noise:.3g} in groups without variance",
            observed=f"an advantage of {noise:.3g} in a group whose completions all have the same reward",
            planned="an advantage of 0: such a group trains nothing",
            because="float32 rounds the mean of equal rewards, and the shim equal_rewards did not reach the advantages",
            fix="look for code that replaces advantages; or --accept SHM024, to train as TRL does",
        )
    tensors = merged(processes)
    unused = _unused_of_the_tower(tensors)
    due = [tensor for tensor in tensors if (tensor.due or tensor.present) and tensor not in unused]
    missing = [tensor.name for tensor in due if not tensor.present]
    if missing or not due:
        return _missing(missing, due, tensors)
    zero = sum(not tensor.nonzero for tensor in due)
    shown = f"loss has grad_fn · gradient on {len(due)}/{len(due)} trainable tensors"
    shown += f", {zero} of them zero" if zero else ""
    idle = len(tensors) - len(due) - len(unused)
    shown += f", {idle} in modules that took no part" if idle else ""
    return PROOF.holds(shown + (f", {len(unused)} of the vision part are not used by the loss" if unused else ""))


def _unused_of_the_tower(tensors: list[Gradient]) -> list[Gradient]:
    """Returns the tensors of a vision part without a gradient, if others of it have one.

    LLaVA uses the output of an earlier layer of CLIP, so the output of later layers is discarded.
    """
    of_tower = [tensor for tensor in tensors if any(word in tensor.name for word in TOWERS)]
    has_gradient = any(tensor.present for tensor in of_tower)
    return [tensor for tensor in of_tower if tensor.due and not tensor.present] if has_gradient else []


def merged(processes: tuple[FirstStep, ...]) -> list[Gradient]:
    """Returns the tensors, each merged over all processes."""
    by_name: dict[str, Gradient] = {}
    for process in processes:
        for new in process.gradients:
            old = by_name.get(new.name, new)
            due, present, nonzero = old.due or new.due, old.present or new.present, old.nonzero or new.nonzero
            by_name[new.name] = Gradient(new.name, due, present, nonzero)
    return list(by_name.values())


def without_graph() -> Proof:
    """Returns the failed proof of a loss without a graph."""
    return PROOF.fails(
        "loss has no grad_fn",
        observed="a loss without grad_fn: no trained tensor is part of it",
        planned=PLANNED,
        because="no trainable tensor took part in the loss, or gradient checkpointing cut the graph: reentrant"
        " checkpointing needs an input that requires a gradient, which a frozen embedding does not give",
        fix="training.gradient_checkpointing_kwargs: {use_reentrant: false}; without checkpointing, look for code"
        " that turned the adapter or requires_grad off",
    )


def _missing(missing: list[str], due: list[Gradient], tensors: list[Gradient]) -> Proof:
    names = ", ".join(sorted(missing)[:SHOWN_NAMES]) + (" and others" if len(missing) > SHOWN_NAMES else "")
    shown = f"gradient on {len(due) - len(missing)}/{len(due) or len(tensors)} trainable tensors"
    if not tensors:
        observed, because = "no trainable tensor at all", "every requires_grad was turned off after the model was built"
    elif not due:
        observed = f"none of {len(tensors)} trainable tensors took part in the loss"
        because = "the adapter is turned off, or a different model computed the loss"
    else:
        observed = f"no gradient (None) on {len(missing)} of {len(due)} trainable tensors: {names}"
        because = "their modules took part in the loss, so something detached them or discarded the gradients"
    return PROOF.fails(
        shown,
        observed=observed,
        planned=PLANNED,
        because=because,
        fix="look for a callback, a patch or a remote-code class that changes the adapter, requires_grad or .grad;"
        " with gradient checkpointing, gradient_checkpointing_kwargs: {use_reentrant: false}",
    )
