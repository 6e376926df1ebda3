"""Traces the memory of one optimizer step of GRPO on fake tensors."""

import os
from collections.abc import Mapping
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from support.tracing.bare_trainer import autocast, bare_trainer, batch, prepare
from support.tracing.fake_model import build_model, materialize
from support.tracing.gpu_kernels import install
from support.tracing.live import LiveBytes


def trace(traced: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the bytes of the second update: of each term, each phase's peak, and the overall peak.

    traced: as made by `traced` of tests/memory/traces.py: config, dtype, autocast, quantization, lora, checkpointing,
    attention, batch, prompt, completion, accumulation, beta, optimizer, device ("cuda" for GPU kernels).
    """
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    if traced["device"] == "cuda":
        install()
    live = LiveBytes(traced["batch"] * traced["completion"])
    model = build_model(traced)
    with FakeTensorMode(allow_non_fake_inputs=True):
        with live:
            materialize(model)
        terms = {"weights": live.now}
        prepare(model, traced)
        model.train()
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        optimizer = _optimizer(trained, traced)
        with live:
            _follow(model, live)
            trainer = bare_trainer(model, traced)
            for _ in range(2):
                live.peaks.clear()
                terms |= _update(trainer, optimizer, trained, traced, live)
    terms["adapter"] = sum(_bytes(parameter) for parameter in trained) if traced["lora"] is not None else 0
    phases = {name: peak for name, peak in live.peaks.items() if name != "load"}
    return {"terms": terms, "phases": phases, "peak": max(phases.values())}


def _update(
    trainer: Any, optimizer: Any, trained: list[Any], traced: Mapping[str, Any], live: LiveBytes
) -> dict[str, int]:
    inputs = batch(traced)
    for _ in range(traced["accumulation"]):
        before = live.now
        live.phase = "backbone forward"
        with autocast(traced):
            loss = trainer._compute_loss(trainer.model, inputs)
        kept = live.at_output - before
        live.phase = "output layer backward"
        live.note()
        loss.backward()
        del loss
        live.phase = "between"
    gradients = sum(_bytes(parameter.grad) for parameter in trained if parameter.grad is not None)
    live.phase = "optimizer"
    live.note()
    torch.nn.utils.clip_grad_norm_(trained, 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    states = sum(_bytes(value) for state in optimizer.state.values() for value in state.values())
    return {"gradients": gradients, "optimizer": states, "activations": kept}


def _follow(model: Any, live: LiveBytes) -> None:
    """Splits phases at the end of the decoder, before the output layer."""
    base = model.get_base_model() if hasattr(model, "get_base_model") else model

    def at_the_end(module: Any, inputs: Any, output: Any) -> None:
        live.at_output = live.now
        live.phase = "output layer forward"
        live.note()
        if output.requires_grad:
            output.register_hook(back_in_the_decoder)

    def back_in_the_decoder(gradient: Any) -> None:
        live.phase = "backbone backward"

    base.model.norm.register_forward_hook(at_the_end)


def _optimizer(trained: list[Any], traced: Mapping[str, Any]) -> Any:
    """Returns an AdamW: "adamw_torch" with temporary lists, "adamw_torch_fused" without."""
    if traced["optimizer"] == "adamw_torch":
        return torch.optim.AdamW(trained, lr=1e-5, foreach=True)
    return _FusedAdamW(trained)


class _FusedAdamW:
    """The states of fused AdamW: two of the size of each parameter, in its type, and a step.

    Source: torch, torch/optim/adamw.py, adam.py: _init_group; the kernel has no fake form.
    """

    def __init__(self, trained: list[Any]) -> None:
        self.state: dict[Any, dict[str, torch.Tensor]] = {}
        self._trained = trained

    def step(self) -> None:
        for parameter in self._trained:
            if parameter.grad is not None and parameter not in self.state:
                states = {name: torch.empty_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
                self.state[parameter] = {"step": torch.zeros(()), **states}

    def zero_grad(self, set_to_none: bool) -> None:
        for parameter in self._trained:
            parameter.grad = None


def _bytes(tensor: torch.Tensor) -> int:
    return int(tensor.numel() * tensor.element_size())
