"""Random numbers of a recipe, the same in every release.

Format 1 of the recipe says: the adapter's initial weights are drawn from `seed`, and before each optimizer step the
generators of python, numpy and torch are set from `seed`, the number of the step (from 0) and the rank. Without it the
completions of one recipe differ from the second step on, since releases draw other numbers between two steps, and a
resumed run goes on with other numbers than one that was not interrupted.
"""

import hashlib
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy
import torch
from peft import PeftModel
from transformers import TrainerCallback, set_seed


def seed_of_step(seed: int, step: int, rank: int) -> int:
    """The seed of one optimizer step on one process: 32 bits of a sha256, so that no two of them are related."""
    return int.from_bytes(hashlib.sha256(f"{seed} {step} {rank}".encode()).digest()[:4], "big")


class SeedEachStep(TrainerCallback):  # type: ignore[misc]
    """Seeds all generators before each optimizer step. rank: of this process among all.

    Where torch knows of no device but the CPU there are three of them. torch.manual_seed would also write down, for
    kinds of devices that are not there, which line asked for it: 0.3 % of a step of the quickstart.
    """

    def __init__(self, seed: int, rank: int) -> None:
        self._seed, self._rank = seed, rank
        self._is_alone = hasattr(torch, "accelerator") and not torch.accelerator.is_available()

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Before the prompts of the step are answered."""
        seed = seed_of_step(self._seed, state.global_step, self._rank)
        if not self._is_alone:
            set_seed(seed)
            return
        random.seed(seed)
        numpy.random.seed(seed)
        torch.default_generator.manual_seed(seed)


@contextmanager
def seeded_adapter(seed: int) -> Iterator[None]:
    """While it is open, PEFT draws the initial weights of every adapter from `seed`, whatever was drawn before."""
    build = PeftModel.__init__

    def seeded(self: Any, *given: Any, **named: Any) -> None:
        set_seed(seed)
        build(self, *given, **named)

    PeftModel.__init__ = seeded
    try:
        yield
    finally:
        PeftModel.__init__ = build
