"""What can be read off a live trainer at any time: devices, dtypes, the reference model, how many answer."""

from typing import Any

import torch

from grpo_recipes.worker.proofs.seen import Precision, Reference

NOT_OF_THE_MODEL = ("lora_", "modules_to_save", "trainable_tokens")


def dtype_name(dtype: Any) -> str:
    """ "bfloat16" for torch.bfloat16."""
    return str(dtype).removeprefix("torch.")


def processes_reached(trainer: Any) -> int:
    """How many processes answer in a sum over all."""
    one = torch.ones(1, device=trainer.accelerator.device)
    return int(trainer.accelerator.reduce(one, reduction="sum").item())


def device_name(device: Any) -> str:
    """ "cuda:0" or "cpu"; the CPU has no number."""
    return "cpu" if device.type == "cpu" else f"{device.type}:{device.index or 0}"


def parameter_devices(trainer: Any) -> tuple[str, ...]:
    """The devices of the policy's parameters."""
    return tuple(sorted({device_name(parameter.device) for parameter in trainer.model.parameters()}))


def zero_stage(trainer: Any) -> int:
    """The ZeRO stage, 0 without DeepSpeed."""
    plugin = trainer.accelerator.state.deepspeed_plugin
    return 0 if plugin is None else int(plugin.zero_stage)


def precision(trainer: Any, compute: str | None) -> Precision:
    """The dtypes of the policy; compute: of the output of its first linear layer."""
    model = trainer.model
    adapter = {
        dtype_name(parameter.dtype)
        for name, parameter in model.named_parameters()
        if "lora_" in name and "magnitude" not in name
    }
    packed = {
        dtype_name(module.compute_dtype)
        for module in model.modules()
        if hasattr(getattr(module, "weight", None), "quant_state") and getattr(module, "compute_dtype", None)
    }
    return Precision(weight_dtypes(trainer, model), tuple(sorted(adapter)), compute, tuple(sorted(packed)))


def weight_dtypes(trainer: Any, model: Any, left_out: tuple[str, ...] = NOT_OF_THE_MODEL) -> tuple[str, ...]:
    """The dtypes of the own floating weights of the trainer's policy or reference, without packed 4-bit weights.

    left_out: parts of the names of adapters. An output layer that TRL casts to float32 counts only if it has another
    dtype, as "lm_head bfloat16"; DeepSpeed may give it the dtype of all tensors, and TRL casts it in each forward pass.
    Source: trl 1.16.0 grpo_trainer.py (_cast_lm_head_to_fp32).
    """
    found = {
        parameter: dtype_name(parameter.dtype)
        for name, parameter in model.named_parameters()
        if parameter.is_floating_point()
        and not any(part in name for part in left_out)
        and not hasattr(parameter, "quant_state")
    }
    if getattr(trainer.args, "cast_lm_head_to_fp32", False):
        head = {found.pop(parameter, "float32") for parameter in model.lm_head.parameters()}
        wrong = () if zero_stage(trainer) else sorted(f"lm_head {dtype}" for dtype in head - {"float32"})
        return (*sorted(set(found.values())), *wrong)
    return tuple(sorted(set(found.values())))


def reference(trainer: Any) -> Reference | None:
    """The reference model that the trainer holds."""
    model = getattr(trainer, "ref_model", None)
    if model is None:
        return None
    kinds = {type(module).__name__ for module in model.modules() if _is_quantized(module)}
    return Reference(weight_dtypes(trainer, model), tuple(sorted(kinds)))


def _is_quantized(module: Any) -> bool:
    weight = getattr(module, "weight", None)
    return hasattr(weight, "quant_state") or type(weight).__name__ == "Int8Params"
