"""Disables cuDNN's attention on GPUs where its gradients are not finite.

Defect: since torch 2.11, cuDNN computes masked attention on Hopper and Blackwell. If the number of keys is 64 more than
a multiple of 128, it returns a NaN gradient for every query whose keys are all masked, as on the left of a padded
prompt, or whose scores are all below about -88. TRL pads prompts on the left, so about one micro-batch in 128 ends a
training.
Seen: torch 2.11.0 for CUDA 13.0 on an NVIDIA H200; pytorch issue 196678.
Remove when: no supported torch has this defect.

The shim tests the device, since the behaviour depends on the cuDNN that the machine loads, not on torch's release.
"""

from typing import Any

import torch
from torch.nn.functional import scaled_dot_product_attention

from grpo_recipes.contract.plan import Plan

HEAD_SIZES = (64, 128)
LENGTHS = (64, 192)
PADDING = 3


def on_trainer(trainer: Any, value: object, plan: Plan) -> str:
    """Switches to torch's other attention kernels if cuDNN's gradient is not finite on this device."""
    if is_finite(trainer.accelerator.device):
        return "nothing: the gradient of attention is finite on this device"
    torch.backends.cuda.enable_cudnn_sdp(False)
    if is_finite(trainer.accelerator.device):
        return "cuDNN's attention is off"
    return "nothing: the gradient of attention is not finite on this device, with and without cuDNN"


def is_finite(device: torch.device) -> bool:
    """Whether attention over a left-padded prompt has a finite gradient on a device, in bfloat16."""
    drawn = torch.Generator().manual_seed(0)
    for size in HEAD_SIZES:
        for length in LENGTHS:
            inputs = [torch.randn(1, 2, length, size, generator=drawn).to(device, torch.bfloat16) for _ in range(3)]
            query, key, content = (tensor.requires_grad_() for tensor in inputs)
            mask = torch.ones(length, length, dtype=torch.bool, device=device).tril()
            mask[:, :PADDING] = False
            scaled_dot_product_attention(query, key, content, attn_mask=mask).float().sum().backward()
            if not all(bool(torch.isfinite(tensor.grad).all()) for tensor in inputs if tensor.grad is not None):
                return False
    return True
