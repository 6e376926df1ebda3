"""The adapter of another run in a live trainer: its tensors, and the proof that they are what that run left.

TRL makes a new adapter of the same shape, as for any run, and the tensors are laid into it. So the reference of the KL
term is the model without its adapter on every release; of an adapter that it is handed whole, newer ones take a copy.
Seen: trl 0.29.1 and 1.16.0, and not 0.14.0 to 0.23.1 (grpo_trainer.py, `add_adapter("ref", ...)`).
"""

from typing import Any

import torch
from peft import load_peft_weights, set_peft_model_state_dict
from peft.utils import get_peft_model_state_dict

from grpo_recipes.contract.plan_sections import Ancestor
from grpo_recipes.worker._shared.inputs import Refused

_SHOWN = 4


def go_on_with(trainer: Any, ancestor: Ancestor) -> None:
    """Lays the adapter's tensors into the trainer's own adapter. Raises Refused if that is not what it then holds."""
    model = trainer.accelerator.unwrap_model(trainer.model)
    tensors = adapter_tensors(ancestor)
    try:
        set_peft_model_state_dict(model, tensors)
    except (RuntimeError, KeyError) as problem:
        raise _another_shape(ancestor, str(problem)) from problem
    refuse_other_tensors(model, tensors, ancestor)
    if hasattr(trainer, "_last_loaded_step"):
        trainer._last_loaded_step = -1  # trl 0.14 takes vLLM for up to date at step 0
    if trainer.is_world_process_zero():
        print(f"goes on with the adapter of {ancestor.name}, {len(tensors)} tensors as it left them", flush=True)


def adapter_tensors(ancestor: Ancestor) -> dict[str, Any]:
    """The tensors of an adapter, by the names that its file has."""
    revision = {} if ancestor.commit is None else {"revision": ancestor.commit}
    tensors: dict[str, Any] = load_peft_weights(ancestor.path, device="cpu", **revision)
    return tensors


def refuse_other_tensors(model: Any, tensors: dict[str, Any], ancestor: Ancestor) -> None:
    """Raises Refused where the model's adapter is not, number by number, the one of the file."""
    live = get_peft_model_state_dict(model, save_embedding_layers=False)
    base = dict(model.named_parameters())
    missing = sorted(set(live) - set(tensors))
    other = sorted(name for name in live if name in tensors and not _same(live[name], tensors[name]))
    # An adapter on a model with added tokens may bring the embeddings of that model, which has them itself.
    extra = [name for name in tensors if name not in live]
    other += sorted(name for name in extra if name not in base or not _same(base[name], tensors[name]))
    if missing or other:
        told = [f"{name} is not in it" for name in missing] + [f"{name} is another one" for name in other]
        more = f", and {len(told) - _SHOWN} more" if len(told) > _SHOWN else ""
        raise _another_shape(ancestor, f"{'; '.join(told[:_SHOWN])}{more}")


def _same(live: Any, written: Any) -> bool:
    """Whether a tensor holds the written numbers, rounded to its own data type."""
    own = live.detach().cpu()
    return bool(own.shape == written.shape and torch.equal(own, written.to(own.dtype)))


def _another_shape(ancestor: Ancestor, because: str) -> Refused:
    return Refused.of(
        f"the adapter of {ancestor.name} is not one of this model and these modules",
        because=because,
        fix="name the model that it was trained on, or train a new adapter on the merged model",
    )
