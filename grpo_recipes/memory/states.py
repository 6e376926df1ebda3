"""What is held all the time: weights, the adapter, gradients, the optimizer."""

from grpo_recipes.memory.update import FourBits, Update
from grpo_recipes.user_files.architecture import Architecture

_BLOCK = 64
_BLOCK_OF_BLOCKS = 256
# Bytes of state for each trained parameter: a number that the type does not change, or per byte of a parameter.
# Source: torch 2.13.0, optim/adamw.py; transformers 5.23.0, training_args.py: OptimizerNames; bitsandbytes 0.50.2,
# optim/adamw.py: two states of 8 bits, and a float32 for each 256 of them.
_PER_BYTE = {"adamw_torch": 2.0, "adamw_torch_fused": 2.0, "sgd": 0.0, "rmsprop": 1.0, "adagrad": 1.0}
_PER_PARAMETER = {"adamw_8bit": 2 + 8 / 256, "adamw_bnb_8bit": 2 + 8 / 256, "lion_8bit": 1 + 4 / 256}
_ON_THE_HOST = ("paged_adamw_8bit", "paged_adamw_32bit", "paged_adamw")


def weight_bytes(architecture: Architecture, update: Update) -> int:
    """The model's weights as loaded, linear modules in four bits where they are quantized, without an adapter."""
    width, quantized = update.weight_width, architecture.layers * architecture.linear_parameters()
    if update.four_bits is None:
        return architecture.parameters() * width
    return (architecture.parameters() - quantized) * width + four_bit_bytes(quantized, update.four_bits)


def four_bit_bytes(parameters: int, four_bits: FourBits) -> int:
    """Weights in four bits with a scale for each 64: float32, or 8 bits and a float32 for each 256 scales.

    Source: bitsandbytes 0.50.2, functional.py: quantize_4bit; the code tables of some bytes are left out.
    """
    scales = parameters // _BLOCK
    return parameters // 2 + (scales + 4 * (scales // _BLOCK_OF_BLOCKS) if four_bits.is_double else 4 * scales)


def trained_parameters(architecture: Architecture, update: Update) -> int:
    """The parameters that have a gradient: all, or those of the adapter."""
    if update.adapter is None:
        return architecture.parameters()
    return architecture.layers * update.adapter.parameters(architecture)


def trained_width(update: Update) -> int:
    """Bytes of one trained parameter, its gradient and each state of a plain optimizer."""
    return update.weight_width if update.adapter is None else update.adapter.width


def optimizer_bytes(optimizer: str, parameters: int, width: int) -> int | None:
    """The states of an optimizer; None for one that is not known here. width: bytes of a parameter."""
    if optimizer in _ON_THE_HOST:
        return 0
    if optimizer in _PER_PARAMETER:
        return round(_PER_PARAMETER[optimizer] * parameters)
    return round(_PER_BYTE[optimizer] * parameters * width) if optimizer in _PER_BYTE else None


def optimizer_step_bytes(optimizer: str, parameters: int, width: int) -> int:
    """What a step holds beside states and gradients: lists as large as the parameters, where it is not fused.

    Source: torch 2.13.0, optim/adam.py: _multi_tensor_adam, whose square roots are a new list.
    """
    return parameters * width if optimizer == "adamw_torch" else 0
