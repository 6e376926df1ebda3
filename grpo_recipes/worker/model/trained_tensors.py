"""Inspects the trainable tensors of a live model: their names, their gradients, and whether they changed."""

from collections.abc import Iterable
from typing import Any

import torch

from grpo_recipes.worker._shared.library import ADAPTED_MODULES
from grpo_recipes.worker.proofs.seen import Precision, Reference

SUMMED_AT_ONCE = 1 << 22
INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def trainable(model: Any) -> dict[str, Any]:
    """Returns the parameters that require a gradient, by name."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def owners(model: Any) -> dict[str, Any]:
    """Returns, for each trainable tensor, the module whose call brings it into the loss.

    For an adapter's tensor that is the adapted layer, which may run while its adapter does not.
    """
    modules = {}
    for name in trainable(model):
        module = model
        for part in name.split(".")[:-1]:
            module = getattr(module, part)
            if isinstance(module, ADAPTED_MODULES):
                break
        modules[name] = module
    return modules


def fingerprints(model: Any) -> dict[str, int]:
    """Returns a number for each trainable tensor that changes with its content: the sum of its bits as integers.

    For a sharded tensor, the number covers this process's part. torch sums in a copy of eight bytes per value, so large
    tensors are summed in parts.
    """
    names, sums = [], []
    for name, parameter in trainable(model).items():
        own = own_part(parameter)
        names.append(name)
        bits = own.contiguous().view(-1).view(INTEGERS[own.element_size()])
        sums.append(sum(part.sum(dtype=torch.int64) for part in bits.split(SUMMED_AT_ONCE)))
    return dict(zip(names, (int(value) for value in sums), strict=True))


def zero_matrices(model: Any) -> set[str]:
    """Returns the names of the LoRA B tensors whose values on this process are all zeros."""
    matrices = {name: parameter for name, parameter in trainable(model).items() if "lora_B" in name}
    return {name for name, parameter in matrices.items() if not bool(own_part(parameter).any())}


def missing_in(optimizer: Any, model: Any) -> set[str]:
    """Returns the names of the trainable tensors that an optimizer does not have."""
    held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    return {name for name, parameter in trainable(model).items() if id(parameter) not in held}


def local(tensor: Any) -> Any:
    """Returns this process's part of a tensor that FSDP shards, any other tensor unchanged."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def own_part(parameter: Any) -> Any:
    """Returns this process's part of a parameter, also under ZeRO or FSDP; detached from the graph."""
    return local(getattr(parameter, "ds_tensor", parameter).detach())


class Arrivals:
    """Records which trainable tensors get a gradient in the backward passes, with hooks on the tensors.

    ZeRO needs it: it moves gradients elsewhere, and leaves zeros where none arrived. reset() starts over.
    """

    def __init__(self, parameters: Iterable[tuple[str, Any]]) -> None:
        self._nonzero: dict[str, Any] = {}
        self._handles = [parameter.register_hook(self._noted(name)) for name, parameter in parameters]

    def reset(self) -> None:
        """Forgets what arrived."""
        self._nonzero.clear()

    def present(self) -> set[str]:
        """Returns the names of the tensors with a gradient."""
        return set(self._nonzero)

    def nonzero(self) -> set[str]:
        """Returns the names of those with a gradient that is not all zeros."""
        return {name for name, flag in self._nonzero.items() if bool(flag)}

    def remove(self) -> None:
        """Removes the hooks from the tensors."""
        for handle in self._handles:
            handle.remove()

    def _noted(self, name: str) -> Any:
        def note(gradient: Any) -> None:
            # No bool here: it would make a GPU wait during the backward pass.
            flag = gradient.any()
            self._nonzero[name] = flag | self._nonzero[name] if name in self._nonzero else flag

        return note


NOT_OF_THE_MODEL = ("lora_", "modules_to_save", "trainable_tokens")


def dtype_name(dtype: Any) -> str:
    """Returns "bfloat16" for torch.bfloat16."""
    return str(dtype).removeprefix("torch.")


def processes_reached(trainer: Any) -> int:
    """Returns how many processes take part in a sum over all."""
    count = torch.ones(1, device=trainer.accelerator.device)
    return int(trainer.accelerator.reduce(count, reduction="sum").item())


def device_name(device: Any) -> str:
    """Returns "cuda:0" or "cpu"; the CPU has no number."""
    return "cpu" if device.type == "cpu" else f"{device.type}:{device.index or 0}"


def parameter_devices(trainer: Any) -> tuple[str, ...]:
    """Returns the devices of the policy's parameters."""
    return tuple(sorted({device_name(parameter.device) for parameter in trainer.model.parameters()}))


def zero_stage(trainer: Any) -> int:
    """Returns the ZeRO stage, 0 without DeepSpeed."""
    plugin = trainer.accelerator.state.deepspeed_plugin
    return 0 if plugin is None else int(plugin.zero_stage)


def precision(trainer: Any, compute: str | None, scores: set[str]) -> Precision:
    """Returns the policy's dtypes. compute, scores: of its first linear layer's output, in the loss and in scoring."""
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
    weights = weight_dtypes(trainer, model)
    return Precision(weights, tuple(sorted(adapter)), compute, tuple(sorted(packed)), tuple(sorted(scores)))


def weight_dtypes(trainer: Any, model: Any, left_out: tuple[str, ...] = NOT_OF_THE_MODEL) -> tuple[str, ...]:
    """Returns the dtypes of the policy's or reference's own floating weights, without those of quantized layers.

    bitsandbytes casts the bias of a quantized layer to the dtype that the layer computes in.

    left_out: parts of adapters' names. An output layer that TRL casts to float32 is listed only if it has a different
    dtype, as "lm_head bfloat16"; DeepSpeed may give it the dtype of all tensors, and TRL casts it in each forward pass.
    Source: trl's grpo_trainer.py (_cast_lm_head_to_fp32), bitsandbytes' nn/modules.py (Linear4bit.forward).
    """
    packed = [module for module in model.modules() if _is_quantized(module)]
    quantized = {parameter for module in packed for parameter in module.parameters(recurse=False)}
    dtypes = {
        parameter: dtype_name(parameter.dtype)
        for name, parameter in model.named_parameters()
        if parameter.is_floating_point() and not any(part in name for part in left_out) and parameter not in quantized
    }
    if getattr(trainer.args, "cast_lm_head_to_fp32", False):
        head = {dtypes.pop(parameter, "float32") for parameter in model.lm_head.parameters()}
        wrong = () if zero_stage(trainer) else sorted(f"lm_head {dtype}" for dtype in head - {"float32"})
        return (*sorted(set(dtypes.values())), *wrong)
    return tuple(sorted(set(dtypes.values())))


def reference(trainer: Any) -> Reference | None:
    """Returns the trainer's reference model."""
    model = getattr(trainer, "ref_model", None)
    if model is None:
        return None
    kinds = {type(module).__name__ for module in model.modules() if _is_quantized(module)}
    return Reference(weight_dtypes(trainer, model), tuple(sorted(kinds)))


def _is_quantized(module: Any) -> bool:
    weight = getattr(module, "weight", None)
    return hasattr(weight, "quant_state") or type(weight).__name__ == "Int8Params"
