"""Gives vLLM copies with the adapter merged, so that the base weights stay as loaded.

Defect: before each generation TRL adds the adapter to the weights in place, sends them to vLLM and subtracts it again.
In bfloat16 neither sum is exact, so each sync changes the frozen weights. After 500 syncs this drift is a tenth of the
adapter's own effect. The saved adapter belongs to the weights as loaded, and so differs from the evaluated policy. A
resumed run continues from different weights than the interrupted run had.
Seen: every release that sends an adapter to vLLM, trl 0.15.2 to 1.16.0 (huggingface/trl, issue 6688).
Remove when: TRL merges into copies itself.
"""

from collections.abc import Iterator
from typing import Any

from peft import PeftModel
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import nn

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.replacing import replace


def on_trainer(trainer: Any, value: object, plan: Plan) -> str:
    """Replaces the methods that TRL calls around a weight sync. Does nothing for a model without an adapter."""
    model = trainer.model
    if not isinstance(model, PeftModel):
        return ""
    hand_over = _HandOver(model)
    replace(model, "merge_adapter", hand_over.begin)
    replace(model, "unmerge_adapter", hand_over.end)
    return f"{len(hand_over.layers())} weights are merged into copies"


class _HandOver:
    """Presents a model's parameters with its adapter merged, between begin and end."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def begin(self) -> None:
        """Replaces merge_adapter."""
        self._model.base_model._check_merge_allowed()
        replace(self._model, "named_parameters", self._named_parameters)
        replace(self._model, "state_dict", self._state_dict)

    def end(self) -> None:
        """Replaces unmerge_adapter."""
        del self._model.named_parameters, self._model.state_dict

    def layers(self) -> dict[int, list[Any]]:
        """Returns the adapter's layers on each parameter, by its id. Sharding a model creates new parameters."""
        layers: dict[int, list[Any]] = {}
        for layer in self._model.modules():
            if isinstance(layer, BaseTunerLayer):
                for parameter in layer.get_base_layer().parameters():
                    layers.setdefault(id(parameter), []).append(layer)
        return layers

    def _named_parameters(self, *given: Any, **named: Any) -> Iterator[tuple[str, Any]]:
        """Yields the model's named parameters, merged; only one module's copies exist at a time."""
        layers = self.layers()
        merged: dict[int, Any] = {}
        for name, parameter in type(self._model).named_parameters(self._model, *given, **named):
            if id(parameter) in layers and id(parameter) not in merged:
                merged = _merge(layers[id(parameter)])
            yield name, merged.get(id(parameter), parameter)

    def _state_dict(self, *given: Any, **named: Any) -> dict[str, Any]:
        """Returns the model's state_dict, merged, with copies of all adapted modules, for releases that call it."""
        state: dict[str, Any] = type(self._model).state_dict(self._model, *given, **named)
        return state | {name: value.data for name, value in self._named_parameters() if name in state}


def _merge(layers: list[Any]) -> dict[int, Any]:
    """Returns copies of these layers' parameters with their adapters merged, by the id of each original.

    PEFT merges into the copies, which temporarily replace the originals in their modules.
    """
    modules = [module for layer in layers for module in layer.get_base_layer().modules()]
    originals = [(module, dict(module._parameters)) for module in dict.fromkeys(modules)]
    copies: dict[int, Any] = {}
    try:
        for module, parameters in originals:
            for name, parameter in parameters.items():
                if parameter is not None:
                    copy = copies.setdefault(id(parameter), nn.Parameter(parameter.detach().clone(), False))
                    module._parameters[name] = copy
        for layer in layers:
            layer.merge()
    finally:
        for module, parameters in originals:
            module._parameters.update(parameters)
        for layer in layers:
            layer.merged_adapters.clear()
            layer._caches.clear()  # what PEFT needs to unmerge DoRA
    return copies
