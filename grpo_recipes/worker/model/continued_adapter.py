"""Continues with another run's adapter in a live trainer, and proves that its tensors are unchanged.

TRL creates a new adapter of the same shape, as for any run, and the tensors are copied into it. So the KL term's
reference is the model without its adapter on every release; newer releases would use a copy of an existing adapter.
Seen: trl 0.29.1 and 1.16.0, but not 0.14.0 to 0.23.1 (grpo_trainer.py, `add_adapter("ref", ...)`).
"""

from typing import Any

import torch
from peft import load_peft_weights, set_peft_model_state_dict
from peft.utils import get_peft_model_state_dict

from grpo_recipes.contract.plan_sections import Ancestor
from grpo_recipes.worker._shared.replacing import Refused

_SHOWN = 4


def continue_adapter(trainer: Any, ancestor: Ancestor) -> None:
    """Copies the adapter's tensors into the trainer's own adapter. Raises Refused if they differ afterwards."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    tensors = adapter_tensors(ancestor)
    try:
        set_peft_model_state_dict(model, tensors)
    except (RuntimeError, KeyError) as problem:
        raise _another_shape(ancestor, str(problem)) from problem
    refuse_other_tensors(model, tensors, ancestor)
    if trainer.args.use_vllm and trainer.seams.value("_last_loaded_step") is not None:
        trainer._last_loaded_step = -1  # trl 0.14 assumes that vLLM is up to date at step 0
    if trainer.is_world_process_zero():
        print(f"continues with the adapter of {ancestor.name}, {len(tensors)} unchanged tensors", flush=True)


def adapter_tensors(ancestor: Ancestor) -> dict[str, Any]:
    """Returns an adapter's tensors, by the names in its file."""
    revision = {} if ancestor.commit is None else {"revision": ancestor.commit}
    tensors: dict[str, Any] = load_peft_weights(ancestor.path, device="cpu", **revision)
    return tensors


def refuse_other_tensors(model: Any, tensors: dict[str, Any], ancestor: Ancestor) -> None:
    """Raises Refused if the model's adapter differs in any number from the file."""
    live = get_peft_model_state_dict(model, save_embedding_layers=False)
    base = dict(model.named_parameters())
    missing = sorted(set(live) - set(tensors))
    other = sorted(name for name in live if name in tensors and not _same(live[name], tensors[name]))
    # The adapter of a model with added tokens may include that model's embeddings, which the model already has.
    extra = [name for name in tensors if name not in live]
    other += sorted(name for name in extra if name not in base or not _same(base[name], tensors[name]))
    if missing or other:
        differences = [f"{name} is missing" for name in missing] + [f"{name} differs" for name in other]
        more = f", and {len(differences) - _SHOWN} more" if len(differences) > _SHOWN else ""
        raise _another_shape(ancestor, f"{'; '.join(differences[:_SHOWN])}{more}")


def _same(live: Any, written: Any) -> bool:
    """Whether a tensor equals the written values, rounded to its own dtype."""
    own = live.detach().cpu()
    return bool(own.shape == written.shape and torch.equal(own, written.to(own.dtype)))


def _another_shape(ancestor: Ancestor, because: str) -> Refused:
    return Refused.of(
        f"the adapter of {ancestor.name} does not fit this model and these modules",
        because=because,
        fix="name the model that it was trained on, or train a new adapter on the merged model",
    )
