"""Random numbers of a recipe, the same in every release.

Format 1 of the recipe specifies: the adapter's initial weights are drawn from `seed`, and before each optimizer step
the generators of python, numpy and torch are set from `seed`, the step's number (from 0) and the rank. Otherwise the
completions of one recipe would differ after the first step, since releases draw different numbers between two
steps, and a resumed run would continue with different numbers than an uninterrupted one.
"""

import functools
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy
import torch
from peft import PeftModel
from transformers import (
    TrainerCallback,
    set_seed,
)

from grpo_recipes.worker._shared.library import seed_of
from grpo_recipes.worker._shared.replacing import replace_temporarily


def seed_of_step(seed: int, step: int, rank: int) -> int:
    """Returns the 32-bit seed of an optimizer step on one process, from a sha256, so that seeds are unrelated."""
    return seed_of(f"{seed} {step} {rank}")


class SeedEachStep(TrainerCallback):  # type: ignore[misc]
    """Seeds all generators before each optimizer step. rank: of this process among all."""

    def __init__(self, seed: int, rank: int) -> None:
        self._seed, self._rank = seed, rank

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Seeds before the step's prompts are answered."""
        seed_everything(seed_of_step(self._seed, state.global_step, self._rank))


@functools.cache
def _is_cpu_alone() -> bool:
    return hasattr(torch, "accelerator") and not torch.accelerator.is_available()


def seed_everything(seed: int) -> None:
    """Seeds all generators.

    If torch has no device but the CPU, there are three. torch.manual_seed would also record the calling line for device
    types that do not exist: 0.3 % of a step of the quickstart.
    """
    if not _is_cpu_alone():
        set_seed(seed)
        return
    random.seed(seed)
    numpy.random.seed(seed)
    torch.default_generator.manual_seed(seed)


@contextmanager
def seeded_adapter(seed: int) -> Iterator[None]:
    """Makes PEFT draw every adapter's initial weights from `seed` inside a with block."""
    build = PeftModel.__init__

    def seeded(self: Any, *given: Any, **named: Any) -> None:
        set_seed(seed)
        build(self, *given, **named)

    with replace_temporarily(PeftModel, "__init__", seeded):
        yield
