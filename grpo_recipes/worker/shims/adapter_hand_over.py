"""Hands an adapter to vLLM merged into copies, so that the weights beneath it stay as they were loaded.

Defect: before each generation TRL adds the adapter to the weights in place, hands them to vLLM and subtracts it again.
In bfloat16 neither sum is exact: each hand-over moves the weights that are not trained. In 500 of them they move by a
tenth of what the adapter changes; what is saved is the adapter alone, for the weights that were loaded, and is not the
policy that was measured. A resumed run goes on from other weights than those of the one that stopped.
Seen: every release that hands an adapter to vLLM, trl 0.15.2 to 1.16.0 (huggingface/trl, issue 6688).
Remove when: TRL merges into copies itself.
"""

from collections.abc import Iterator
from typing import Any

from peft import PeftModel
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import nn

from grpo_recipes.contract.plan import Plan


def on_trainer(trainer: Any, value: object, plan: Plan) -> str:
    """Replaces what TRL calls around a hand-over. Nothing for a model without an adapter."""
    model = trainer.model
    if not isinstance(model, PeftModel):
        return ""
    hand_over = _HandOver(model)
    model.merge_adapter, model.unmerge_adapter = hand_over.begin, hand_over.end
    return f"{len(hand_over.layers())} weights are merged into copies"


class _HandOver:
    """A model whose parameters are read as if its adapter were merged, between begin and end."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def begin(self) -> None:
        """In place of merge_adapter."""
        self._model.base_model._check_merge_allowed()
        self._model.named_parameters, self._model.state_dict = self._named_parameters, self._state_dict

    def end(self) -> None:
        """In place of unmerge_adapter."""
        del self._model.named_parameters, self._model.state_dict

    def layers(self) -> dict[int, list[Any]]:
        """The adapter's layers on each parameter, by its id. A strategy that shards a model makes other parameters."""
        found: dict[int, list[Any]] = {}
        for layer in self._model.modules():
            if isinstance(layer, BaseTunerLayer):
                for parameter in layer.get_base_layer().parameters():
                    found.setdefault(id(parameter), []).append(layer)
        return found

    def _named_parameters(self, *given: Any, **named: Any) -> Iterator[tuple[str, Any]]:
        """What the model's own method gives, merged. Copies of one module alone are there at a time."""
        layers = self.layers()
        merged: dict[int, Any] = {}
        for name, parameter in type(self._model).named_parameters(self._model, *given, **named):
            if id(parameter) in layers and id(parameter) not in merged:
                merged = _merged(layers[id(parameter)])
            yield name, merged.get(id(parameter), parameter)

    def _state_dict(self, *given: Any, **named: Any) -> dict[str, Any]:
        """What the model's own method gives, merged: copies of all adapted modules, for releases that ask for it."""
        state: dict[str, Any] = type(self._model).state_dict(self._model, *given, **named)
        return state | {name: value.data for name, value in self._named_parameters() if name in state}


def _merged(layers: list[Any]) -> dict[int, Any]:
    """Copies of the parameters under these layers with their adapters merged, by the id of each original.

    PEFT merges into them as it would have into the originals, which are not in their modules meanwhile.
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
            getattr(layer, "_caches", {}).clear()  # what PEFT needs to unmerge DoRA
    return copies
