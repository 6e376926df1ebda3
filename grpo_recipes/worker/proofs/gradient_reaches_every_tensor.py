"""The loss is a finite number with a graph, and every trainable tensor that took part in it has a gradient.

No advantage is other than zero in a group whose completions are all worth the same, unless `--accept SHM024` leaves
them as TRL computes them.

Catches: "element 0 of tensors does not require grad" before it is raised (reentrant checkpointing with a frozen
embedding and nobody to enable input gradients: TRL 0.14 and 0.15 with LoRA), an adapter that is switched off or
detached, gradients that are thrown away before the optimizer sees them, and a loss that is NaN from the start,
which the Trainer's own filter hides. A gradient of zeros is no failure: groups without variance have one, and so
has every LoRA A in the first step, since B is zero. A tensor whose module took no part in the loss (the vision
tower under text) is counted apart. Under ZeRO, which keeps no gradients to look at, their arrival is watched.
Source: trl issue 3150; transformers 5.23.0 trainer.py (logging_nan_inf_filter).
"""

import math

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.proofs.proof import Proof, Statement
from grpo_recipes.worker.proofs.seen import FirstStep, Gradient

ID = "PRF004"
PROOF = Statement(ID, "gradient")
SHOWN_NAMES = 3
PLANNED = "a finite loss, and a gradient, of zeros at least, for every trainable tensor in it"


def prove(plan: Plan, seen: tuple[FirstStep, ...]) -> Proof:
    """The loss and the gradients of the first step; a tensor needs its gradient on one process."""
    losses = [loss for one in seen for loss in one.losses]
    strange = [loss for loss in losses if not math.isfinite(loss)]
    if strange:
        return PROOF.fails(
            f"loss {strange[0]}",
            found=f"a loss of {strange[0]}",
            planned=PLANNED,
            because="such a loss makes every weight it reaches NaN; a model in too small a dtype is the usual cause",
            fix="model.dtype: float32, or bfloat16 instead of float16, or a smaller learning_rate",
        )
    noise = max(one.noise for one in seen)
    if noise:
        return PROOF.fails(
            f"advantages up to {noise:.3g} in groups without variance",
            found=f"an advantage of {noise:.3g} in a group whose completions are all worth the same",
            planned="none: such a group trains nothing",
            because="float32 rounds the mean of equal rewards, and the shim equal_rewards did not reach the advantages",
            fix="what replaces them after TRL made them; or --accept SHM024, to train as TRL does",
        )
    tensors = merged(seen)
    due = [tensor for tensor in tensors if tensor.due or tensor.present]
    missing = [tensor.name for tensor in due if not tensor.present]
    if missing or not due:
        return _missing(missing, due, tensors)
    zero = sum(not tensor.nonzero for tensor in due)
    shown = f"loss has grad_fn · gradient on {len(due)}/{len(due)} trainable tensors"
    shown += f", {zero} of them zero" if zero else ""
    idle = len(tensors) - len(due)
    return PROOF.holds(shown + (f", {idle} in modules that took no part" if idle else ""))


def merged(seen: tuple[FirstStep, ...]) -> list[Gradient]:
    """The tensors with what any process saw of each."""
    found: dict[str, Gradient] = {}
    for one in seen:
        for new in one.gradients:
            old = found.get(new.name, new)
            due, present, nonzero = old.due or new.due, old.present or new.present, old.nonzero or new.nonzero
            found[new.name] = Gradient(new.name, due, present, nonzero)
    return list(found.values())


def without_graph() -> Proof:
    """The failure of a loss that no backward pass can start from."""
    return PROOF.fails(
        "loss has no grad_fn",
        found="a loss without grad_fn: nothing that is trained is part of it",
        planned=PLANNED,
        because="no trainable tensor took part in the loss, or gradient checkpointing cut the graph: reentrant"
        " checkpointing needs an input that requires a gradient, and a frozen embedding gives none",
        fix="training.gradient_checkpointing_kwargs: {use_reentrant: false}; without checkpointing, look for what"
        " switched the adapter or requires_grad off",
    )


def _missing(missing: list[str], due: list[Gradient], tensors: list[Gradient]) -> Proof:
    names = ", ".join(sorted(missing)[:SHOWN_NAMES]) + (" and others" if len(missing) > SHOWN_NAMES else "")
    shown = f"gradient on {len(due) - len(missing)}/{len(due) or len(tensors)} trainable tensors"
    if not tensors:
        found, because = "no trainable tensor at all", "every requires_grad was switched off after the model was built"
    elif not due:
        found = f"none of {len(tensors)} trainable tensors took part in the loss"
        because = "the adapter is switched off, or another model computed the loss"
    else:
        found = f"no gradient (None) on {len(missing)} of {len(due)} trainable tensors: {names}"
        because = "their modules took part in the loss, so something detached them or threw the gradients away"
    return PROOF.fails(
        shown,
        found=found,
        planned=PLANNED,
        because=because,
        fix="a callback, a patch or a remote-code class that changes the adapter, requires_grad or .grad;"
        " with gradient checkpointing, gradient_checkpointing_kwargs: {use_reentrant: false}",
    )
