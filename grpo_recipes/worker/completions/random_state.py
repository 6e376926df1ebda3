"""What is random goes on as if nothing had happened."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy
import torch


@contextmanager
def kept_random_state() -> Iterator[None]:
    """Restores the generators of python, numpy, torch and this process's GPU when the block ends."""
    python, arrays, cpu = random.getstate(), numpy.random.get_state(), torch.get_rng_state()
    # Not of all GPUs: each process would open a context, half a gigabyte, on the GPUs of the others.
    gpu = torch.cuda.get_rng_state() if torch.cuda.is_available() else None
    try:
        yield
    finally:
        random.setstate(python)
        numpy.random.set_state(arrays)
        torch.set_rng_state(cpu)
        if gpu is not None:
            torch.cuda.set_rng_state(gpu)
