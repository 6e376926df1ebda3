"""Builds a recipe's model from the installed libraries' code, with fake weights."""

from collections.abc import Mapping
from typing import Any

import torch

from support.tracing.gpu_kernels import ATTENTION

_CODE_ENTRIES = 16
_BLOCK = 64
_BLOCK_OF_BLOCKS = 256


def build_model(traced: Mapping[str, Any]) -> Any:
    """Returns the model as GRPOTrainer prepares it, with its adapter, on the device "meta"."""
    with torch.device("meta"):
        model = _base_model(traced)
        if traced["quantization"] == "nf4":
            _quantize(model, traced)
        _fuse_output_layer(model)
        if traced["lora"] is not None:
            model = _with_adapter(model, traced)
    return model


def materialize(model: Any) -> None:
    """Gives each parameter and buffer on "meta" a fake storage; tied ones stay tied."""
    made: dict[int, tuple[Any, Any]] = {}  # keeps the original too, so that its id is not reused
    for module in model.modules():
        for name, parameter in list(module._parameters.items()):
            if parameter is not None:
                if id(parameter) not in made:
                    made[id(parameter)] = (_fake(parameter), parameter)
                module._parameters[name] = made[id(parameter)][0]
        for name, buffer in list(module._buffers.items()):
            if buffer is not None:
                module._buffers[name] = torch.empty(buffer.shape, dtype=buffer.dtype)


def _fake(parameter: Any) -> Any:
    fake = torch.nn.Parameter(torch.empty(parameter.shape, dtype=parameter.dtype), parameter.requires_grad)
    state = getattr(parameter, "quant_state", None)
    if state is not None:
        for name in ("absmax", "code", "offset"):
            _make(state, name)
        if state.state2 is not None:
            _make(state.state2, "absmax")
            _make(state.state2, "code")
        fake.quant_state, fake.compress_statistics, fake.quant_type = state, state.nested, "nf4"
    return fake


def _make(holder: Any, name: str) -> None:
    tensor = getattr(holder, name, None)
    if tensor is not None:
        setattr(holder, name, torch.empty(tensor.shape, dtype=tensor.dtype))


def _base_model(traced: Mapping[str, Any]) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM

    values = {key: value for key, value in traced["config"].items() if key not in ("model_type", "architectures")}
    config = AutoConfig.for_model(traced["config"]["model_type"], **values)
    attention = ATTENTION if traced["attention"] == "sdpa" and traced["device"] == "cuda" else traced["attention"]
    dtype = getattr(torch, traced["dtype"])
    model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation=attention)
    if traced["checkpointing"]:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return model


def _fuse_output_layer(model: Any) -> None:
    """Fuses the output layer as TRL >= 1.15 does, which computes probabilities in tiles of it.

    Source: trl 1.16.0, GRPOTrainer.__init__.
    """
    try:
        from trl.trainer.utils import add_fused_lm_head
    except ImportError:
        return
    add_fused_lm_head(model, outputs=("log_probs", "entropy"))


def _with_adapter(model: Any, traced: Mapping[str, Any]) -> Any:
    from peft import LoraConfig, get_peft_model

    lora = traced["lora"]
    config = LoraConfig(r=lora["r"], lora_alpha=lora["r"], target_modules=lora["targets"], task_type="CAUSAL_LM")
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    adapted = get_peft_model(model, config)
    if traced["checkpointing"]:
        adapted.enable_input_require_grads()
    if traced["quantization"] is not None:  # TRL 1.16.0, GRPOTrainer.__init__: adapters of a quantized model
        for module in adapted.modules():
            for name, parameter in list(module._parameters.items()):
                if parameter is not None and parameter.requires_grad:
                    module._parameters[name] = torch.nn.Parameter(parameter.detach().to(torch.bfloat16))
    return adapted


def _quantize(model: Any, traced: Mapping[str, Any]) -> None:
    """Replaces all linear layers except the output layer with 4-bit layers, as transformers does."""
    import bitsandbytes
    from bitsandbytes.functional import QuantState

    compute = getattr(torch, traced["compute_dtype"])
    for module in list(model.modules()):
        for child_name, child in list(module.named_children()):
            if type(child) is not torch.nn.Linear or child_name == "lm_head":
                continue
            layer = bitsandbytes.nn.Linear4bit(
                child.in_features, child.out_features, child.bias is not None, compute_dtype=compute, quant_type="nf4"
            )
            count = child.weight.numel()
            blocks = -(-count // _BLOCK)
            weight = torch.nn.Parameter(torch.empty((count // 2, 1), dtype=torch.uint8), requires_grad=False)
            absmax = torch.empty(-(-blocks // _BLOCK_OF_BLOCKS))
            second = QuantState(absmax, code=torch.empty(256), blocksize=_BLOCK_OF_BLOCKS, dtype=torch.float32)
            is_nested = traced["double_quant"]
            weight.quant_state = QuantState(
                torch.empty(blocks, dtype=torch.uint8 if is_nested else torch.float32),
                shape=child.weight.shape,
                code=torch.empty(_CODE_ENTRIES),
                blocksize=_BLOCK,
                quant_type="nf4",
                dtype=child.weight.dtype,
                offset=torch.empty(()) if is_nested else None,
                state2=second if is_nested else None,
            )
            weight.quant_type, weight.compress_statistics = "nf4", is_nested
            layer._parameters["weight"] = weight
            if child.bias is not None:
                layer._parameters["bias"] = torch.nn.Parameter(child.bias.detach(), requires_grad=False)
            setattr(module, child_name, layer)
