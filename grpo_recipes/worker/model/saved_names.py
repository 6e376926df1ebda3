"""Saves the tensors of a model under the names that its files had."""

from importlib.util import find_spec
from typing import Any

from transformers.integrations import is_deepspeed_zero3_enabled

from grpo_recipes.worker._shared.replacing import refuse_unknown_member

_RENAMINGS = "_weight_conversions"


def save_by_the_names_of_its_files(model: Any) -> None:
    """Forgets the renamings of weights that loading did not need, as transformers does without ZeRO-3.

    transformers 5.23.0 reverses the renamings that it keeps when it saves. ZeRO-3 keeps all that it has for a family:
    LLaVA-NeXT and Gemma 3 were written with names that their files never had, such as `language_model.model.model`.
    """
    if not is_deepspeed_zero3_enabled() or find_spec("transformers.core_model_loading") is None:
        return
    from transformers.core_model_loading import WeightTransform, revert_weight_conversion

    if not hasattr(WeightTransform, "was_used"):
        return  # before transformers 5.8, which keep all of them without ZeRO-3, too
    if _RENAMINGS not in revert_weight_conversion.__code__.co_consts:
        raise refuse_unknown_member(f"saving does not read {_RENAMINGS}", "transformers, core_model_loading.py")
    # A model whose family has no renamings has no such value.
    known = vars(model).get(_RENAMINGS, [])
    setattr(model, _RENAMINGS, [entry for entry in known if entry.was_used()])
