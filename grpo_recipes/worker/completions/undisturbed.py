"""Calls the policy without an effect on the training."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy
import torch
from transformers import set_seed
from transformers.integrations import is_deepspeed_zero3_enabled
from trl.models.utils import add_hooks, remove_hooks


@contextmanager
def kept_random_state() -> Iterator[None]:
    """Restores the generators of python, numpy, torch and this process's GPU when the block ends."""
    python, arrays, cpu = random.getstate(), numpy.random.get_state(), torch.get_rng_state()
    # Not for all GPUs: each process would open a context, half a gigabyte, on every GPU.
    gpu = torch.cuda.get_rng_state() if torch.cuda.is_available() else None
    try:
        yield
    finally:
        random.setstate(python)
        numpy.random.set_state(arrays)
        torch.set_rng_state(cpu)
        if gpu is not None:
            torch.cuda.set_rng_state(gpu)


@contextmanager
def undisturbed(trainer: Any) -> Iterator[None]:
    """Puts the model into evaluation mode; afterwards restores all modules' modes and all random generators."""
    modules = list(trainer.model_wrapped.modules())
    modes = [module.training for module in modules]
    with kept_random_state(), torch.no_grad():
        # The same draws at each evaluation, but different ones on each rank.
        set_seed(trainer.args.seed + trainer.accelerator.process_index)
        trainer.model_wrapped.eval()
        try:
            yield
        finally:
            for module, mode in zip(modules, modes, strict=True):
                module.training = mode
            if is_deepspeed_zero3_enabled():
                _forget_order_of_layers(trainer.model_wrapped)


def _forget_order_of_layers(engine: Any) -> None:
    """Makes ZeRO-3 learn the order of layers from the next forward, which may be a loss of TRL.

    That one calls no output layer. If ZeRO-3 expects the call, it fetches the weights before TRL does, and gives them
    up before the backward pass, which ends in a RuntimeError. Seen: an untied output layer that is trained, trl's
    trainer/utils.py (maybe_gather_lm_head_ctx), deepspeed 0.19.8.
    """
    remove_hooks(engine)
    add_hooks(engine)
