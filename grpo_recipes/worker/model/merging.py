"""Merges an adapter into the weights by PEFT's own arithmetic, one module at a time.

PEFT adds the change to a weight in the weight's dtype. This loses changes of bfloat16 weights even if a larger dtype
is requested, and rounds twice for a smaller dtype. So each weight is float32 while its adapter is added, then rounded
once. At most one weight exists twice at a time.
"""

import warnings
from collections.abc import Iterator
from typing import Any

import torch
from peft.tuners.tuners_utils import BaseTunerLayer

from grpo_recipes.worker._shared.replacing import Refused


def merged(model: Any, dtype: torch.dtype, otherwise: str) -> Any:
    """Returns a PeftModel's base with the active adapter merged, with all weights in one dtype.

    The PeftModel is consumed. 4-bit and 8-bit weights must be dequantized before: PEFT would quantize the merged
    weights again. Raises Refused for an adapter that PEFT cannot merge; otherwise: the fix in its message.
    """
    try:
        return _merge_copy(model, dtype)
    except (RuntimeError, ValueError, NotImplementedError) as problem:
        if isinstance(problem, torch.OutOfMemoryError):
            raise
        first = (str(problem).splitlines() or [""])[0]
        raise Refused.of("PEFT cannot merge this adapter", because=first, fix=otherwise) from problem


def _merge_copy(model: Any, dtype: torch.dtype) -> Any:
    _untie(model)
    for base, layers in _adapted(model):
        for weight in _weights(base):
            weight.data = weight.data.to(torch.float32)
        for layer in layers:
            layer.merge()
        for weight in _weights(base):
            weight.data = weight.data.to(dtype)
    with warnings.catch_warnings():
        # PEFT warns that an adapter is already merged, and about tied weights, which are handled below.
        warnings.simplefilter("ignore")
        plain = model.merge_and_unload()
    return rounded(plain, dtype)


def rounded(model: Any, dtype: torch.dtype) -> Any:
    """Returns the model with all weights in one dtype. Untrained buffers, such as frequencies, stay unchanged."""
    for weight in model.parameters():
        if weight.is_floating_point():
            weight.data = weight.data.to(dtype)
    return model


def _adapted(model: Any) -> Iterator[tuple[Any, list[Any]]]:
    """Yields each module of the base that has adapters, with them."""
    by_module: dict[int, tuple[Any, list[Any]]] = {}
    for layer in model.modules():
        if isinstance(layer, BaseTunerLayer) and layer.active_adapters:
            base = layer.get_base_layer()
            by_module.setdefault(id(base), (base, []))[1].append(layer)
    yield from by_module.values()


def _weights(base: Any) -> Iterator[Any]:
    return (weight for weight in base.parameters(recurse=False) if weight.is_floating_point())


def _untie(model: Any) -> None:
    """Gives the output layer its own weight if it shares the embedding's and only one of both has an adapter.

    PEFT would add the change to the shared weight, and so to both.
    """
    base = model.get_base_model()
    ends = (base.get_input_embeddings(), base.get_output_embeddings())
    first, last = (end.get_base_layer() if isinstance(end, BaseTunerLayer) else end for end in ends)
    is_tied = last is not None and getattr(first, "weight", None) is last.weight
    if is_tied and any(isinstance(end, BaseTunerLayer) for end in ends):
        last.weight = torch.nn.Parameter(last.weight.detach().clone(), requires_grad=False)
        base.config.get_text_config().tie_word_embeddings = False
        base.config.tie_word_embeddings = False
