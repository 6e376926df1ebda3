"""An adapter made part of the weights that it was trained beside, by PEFT's own arithmetic, one module after the other.

PEFT adds the change to a weight in the dtype of that weight, which rounds a change of bfloat16 weights away where a
larger dtype is asked for, and rounds twice where a smaller one is. So each weight is made float32 for the moment in
which its adapter is added, then rounded once. No more than one weight is there twice.
"""

import warnings
from collections.abc import Iterator
from typing import Any

import torch
from peft.tuners.tuners_utils import BaseTunerLayer

from grpo_recipes.worker._shared.inputs import Refused


def merged(model: Any, dtype: torch.dtype, otherwise: str) -> Any:
    """The model of a PeftModel with its active adapter in its weights, all of them of a dtype.

    The PeftModel is used up. Packed weights of 4 or 8 bits have to be plain ones before: PEFT would pack what it
    merged again. Raises Refused for an adapter that PEFT cannot merge; otherwise: what to do then.
    """
    try:
        return _merged(model, dtype)
    except (RuntimeError, ValueError, NotImplementedError) as problem:
        if isinstance(problem, torch.OutOfMemoryError):
            raise
        first = (str(problem).splitlines() or [""])[0]
        raise Refused.of("PEFT cannot merge this adapter", because=first, fix=otherwise) from problem


def _merged(model: Any, dtype: torch.dtype) -> Any:
    _untie(model)
    for base, layers in _adapted(model):
        for weight in _weights(base):
            weight.data = weight.data.to(torch.float32)
        for layer in layers:
            layer.merge()
        for weight in _weights(base):
            weight.data = weight.data.to(dtype)
    with warnings.catch_warnings():
        # That all of it is merged already, and which weights are no longer tied, as is told below.
        warnings.simplefilter("ignore")
        plain = model.merge_and_unload()
    return rounded(plain, dtype)


def rounded(model: Any, dtype: torch.dtype) -> Any:
    """The model with all its weights of a dtype. What is computed and not trained, as frequencies, stays as it is."""
    for weight in model.parameters():
        if weight.is_floating_point():
            weight.data = weight.data.to(dtype)
    return model


def _adapted(model: Any) -> Iterator[tuple[Any, list[Any]]]:
    """Each module of the base that has adapters, with them."""
    found: dict[int, tuple[Any, list[Any]]] = {}
    for layer in model.modules():
        if isinstance(layer, BaseTunerLayer) and layer.active_adapters:
            base = layer.get_base_layer()
            found.setdefault(id(base), (base, []))[1].append(layer)
    yield from found.values()


def _weights(base: Any) -> Iterator[Any]:
    return (weight for weight in base.parameters(recurse=False) if weight.is_floating_point())


def _untie(model: Any) -> None:
    """Gives the output layer a weight of its own where it has the embedding's and an adapter is of one of both alone.

    PEFT adds the change to the one weight, and so to both.
    """
    base = model.get_base_model()
    ends = (base.get_input_embeddings(), base.get_output_embeddings())
    first, last = (end.get_base_layer() if isinstance(end, BaseTunerLayer) else end for end in ends)
    is_tied = last is not None and getattr(first, "weight", None) is last.weight
    if is_tied and any(isinstance(end, BaseTunerLayer) for end in ends):
        last.weight = torch.nn.Parameter(last.weight.detach().clone(), requires_grad=False)
        base.config.get_text_config().tie_word_embeddings = False
        base.config.tie_word_embeddings = False
