"""Makes a GRPOTrainer with only its loss: no data, no rewards, no processes."""

import contextlib
from collections import defaultdict
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import torch


def bare_trainer(model: Any, traced: Mapping[str, Any]) -> Any:
    """Returns a GRPOTrainer of the installed TRL with only the attributes that `_compute_loss` reads."""
    from trl import GRPOTrainer

    trainer = object.__new__(GRPOTrainer)
    steps = traced["accumulation"]
    arguments = SimpleNamespace(
        delta=None,
        use_bias_correction_kl=False,
        steps_per_generation=steps,
        gradient_accumulation_steps=steps,
        report_to=[],
    )
    accelerator = SimpleNamespace(
        autocast=lambda: autocast(traced),
        gather=lambda tensor: tensor,
        reduce=lambda tensor, reduction: tensor,
        num_processes=1,
        is_main_process=False,
    )
    trainer.__dict__.update(
        model=model,
        state=SimpleNamespace(global_step=0),
        args=arguments,
        accelerator=accelerator,
        aux_loss_enabled=False,
        top_entropy_quantile=1.0,
        off_policy_mask_threshold=None,
        importance_sampling_level="token",
        beta=traced["beta"],
        loss_type="dapo",
        epsilon_low=0.2,
        epsilon_high=0.2,
        use_vllm=False,
        vllm_importance_sampling_correction=False,
        use_liger_loss=False,
        use_liger_kernel=False,
        current_gradient_accumulation_steps=steps,
        max_completion_length=traced["completion"],
        temperature=1.0,
        model_kwarg_keys=("logits_to_keep",),
        _entropy_bonus_enabled=False,
        _metrics={"train": defaultdict(list), "eval": defaultdict(list)},
    )
    return trainer


def autocast(traced: Mapping[str, Any]) -> Any:
    """Returns the Trainer's mixed precision context, for the CPU, since the fake tensors are there."""
    if traced["autocast"] is None:
        return contextlib.nullcontext()
    return torch.autocast("cpu", dtype=getattr(torch, traced["autocast"]))


def prepare(model: Any, traced: Mapping[str, Any]) -> None:
    """Wraps the forward pass as accelerate 1.15.0, Accelerator.prepare_model, does for mixed precision."""
    if traced["autocast"] is None:
        return
    from accelerate.utils import convert_outputs_to_fp32

    forward = model.forward

    def in_mixed_precision(*args: Any, **kwargs: Any) -> Any:
        with autocast(traced):
            return forward(*args, **kwargs)

    model.forward = convert_outputs_to_fp32(in_mixed_precision)


def batch(traced: Mapping[str, Any]) -> dict[str, torch.Tensor]:
    """Returns a micro-batch as `_prepare_inputs` passes it to the loss, with completions of maximum length."""
    rows, prompt, completion = traced["batch"], traced["prompt"], traced["completion"]
    inputs = {
        "prompt_ids": torch.zeros(rows, prompt, dtype=torch.long),
        "prompt_mask": torch.ones(rows, prompt, dtype=torch.long),
        "completion_ids": torch.zeros(rows, completion, dtype=torch.long),
        "completion_mask": torch.ones(rows, completion, dtype=torch.long),
        "advantages": torch.zeros(rows),
        "num_items_in_batch": torch.ones(()),
    }
    if traced["beta"]:
        inputs["ref_per_token_logps"] = torch.zeros(rows, completion)
    return inputs
