"""Reads the values that the proofs before the first step compare from the built trainer."""

import enum
import re
from typing import Any

import torch
from peft.tuners.lora import LoraLayer
from transformers.pytorch_utils import Conv1D

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.model.trained_tensors import device_name, parameter_devices, weight_dtypes, zero_stage
from grpo_recipes.worker.proofs.before_training.compared import Loaded
from grpo_recipes.worker.vllm.engine import dtype_seen, tokens_seen

_OF_ADAPTERS = ("lora_", "modules_to_save")


def loaded(plan: Plan, trainer: Any) -> Loaded:
    """Returns the values of this process's trainer."""
    parameters = dict(trainer.model.named_parameters())
    trained = {name for name, parameter in parameters.items() if parameter.requires_grad}
    is_lora = plan.expect.trainable == "lora"
    expected = expected_trainable(trainer.model, plan.arguments.LoraConfig or {}) if is_lora else set(parameters)
    named = [name for name in plan.expect.arguments if hasattr(trainer.args, name)]
    return Loaded(
        rank=trainer.accelerator.process_index,
        deepspeed_stage=zero_stage(trainer),
        arguments={name: _plain(getattr(trainer.args, name)) for name in named},
        trained=frozenset(trained),
        expected=frozenset(expected),
        numbers=sum(getattr(parameters[name], "ds_numel", parameters[name].numel()) for name in trained),
        weights=weight_dtypes(trainer, trainer.model, left_out=_OF_ADAPTERS),
        device=device_name(trainer.accelerator.device),
        parameter_devices=parameter_devices(trainer),
        vllm_dtype=dtype_seen(plan, trainer),
        vllm_tokens=tokens_seen(plan, trainer),
    )


def _plain(value: Any) -> Any:
    """Returns a value as JSON: enums become their values, tuples lists."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value if value is None or isinstance(value, str | int | float) else repr(value)


ADAPTER = "default"
# Parts of a module in `modules_to_save`, to which PEFT adds no adapter.
TRAINED_WHOLE = (".modules_to_save.", ".original_module.")
# With these, the plan alone does not determine the modules, so PEFT's own selection is used.
NARROWING = ("layers_to_transform", "layers_pattern", "target_parameters", "exclude_modules")


def expected_trainable(model: Any, lora: dict[str, Any]) -> set[str]:
    """Returns the names of a PeftModel's parameters that the plan's LoraConfig keywords train.

    They are all adapter tensors of the selected modules, the saved copies of `modules_to_save`, the rows of
    `trainable_token_indices`, and biases if `bias` asks for them. A selected module without an adapter is listed as
    `<module>.lora_A`, so that it shows as missing.
    """
    base = model.get_base_model()
    prefix = "base_model.model."
    layers = {name: module for name, module in base.named_modules() if isinstance(module, LoraLayer)}
    targets = lora.get("target_modules")
    if targets is None or any(lora.get(key) for key in NARROWING):
        selected = set(layers)
    else:
        selected = {name for name in _linear_modules(base, layers) if is_targeted(name, targets)}
        if targets == "all-linear":
            selected -= _output_modules(base)
    expected = set()
    for name in selected:
        own = [key for key, _ in layers[name].named_parameters() if "lora_" in key] if name in layers else ["lora_A"]
        expected |= {f"{prefix}{name}.{key}" for key in own}
    return expected | {name for name, _ in model.named_parameters() if _is_trained_otherwise(name, lora)}


def is_targeted(name: str, targets: str | list[str]) -> bool:
    """Whether PEFT's `target_modules` selects a module: a pattern for its name, or a suffix of it."""
    if isinstance(targets, str):
        return targets == "all-linear" or re.fullmatch(targets, name) is not None
    return any(name == target or name.endswith(f".{target}") for target in targets)


def _linear_modules(base: Any, layers: dict[str, Any]) -> set[str]:
    """Returns linear layers and embeddings, by name before wrapping."""
    kinds = (torch.nn.Linear, torch.nn.Embedding, Conv1D)
    parts = tuple(f"{name}." for name in layers)
    return {
        name
        for name, module in base.named_modules()
        if (name in layers or isinstance(module, kinds))
        and not name.startswith(parts)
        and not any(inside in f"{name}." for inside in TRAINED_WHOLE)
    }


def _output_modules(base: Any) -> set[str]:
    """Returns the modules that all-linear leaves out: the language model head, and embeddings, which are not linear."""
    head = base.get_output_embeddings()
    return {name for name, module in base.named_modules() if module is head or isinstance(module, torch.nn.Embedding)}


def _is_trained_otherwise(name: str, lora: dict[str, Any]) -> bool:
    if lora.get("modules_to_save") and f".modules_to_save.{ADAPTER}." in name:
        return True
    if lora.get("trainable_token_indices") and "trainable_tokens_delta" in name:
        return True
    bias = lora.get("bias", "none")
    return name.endswith("bias") and (bias == "all" or (bias == "lora_only" and ".base_layer." in name))
