"""Sampling by row: each row has its own random numbers, whatever process or batch it is in.

transformers draws all rows of a batch from one generator, so a row's completions depend on earlier rows, the batch
and the process. Here a number in [0, 1) chooses each token: the first at which the cumulative probability passes it.
The number depends on the seed, row, sample and position in the completion. Two evaluations use the same numbers, so
only the policy differs between them.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy
import torch

from grpo_recipes.worker._shared.replacing import replace_temporarily


def numbers_of(seed: int, row: int, sample: int, count: int) -> "numpy.ndarray":
    """Returns the numbers of one completion, (count,) float64 in [0, 1), the same in every release."""
    digest = hashlib.sha256(f"{seed} row {row} sample {sample}".encode()).digest()
    return numpy.random.RandomState(numpy.frombuffer(digest, dtype="<u4")).random_sample(count)


@contextmanager
def drawn_with(numbers: "Sequence[numpy.ndarray]") -> Iterator[None]:
    """Makes `generate` with do_sample draw tokens with these numbers: one array per row of the batch.

    It replaces torch.multinomial, called once per token for all rows. Raises RuntimeError if a release does not call
    it. Source: `_sample` of transformers 4.46.0 to 5.23.0, generation/utils.py.
    """
    table = torch.from_numpy(numpy.stack(numbers))
    position = 0

    def draw(probabilities: torch.Tensor, num_samples: int, *given: object, **named: object) -> torch.Tensor:
        nonlocal position
        tokens = token_at(probabilities, table[:, position])
        position += 1
        return tokens

    with replace_temporarily(torch, "multinomial", draw):
        yield
    if position == 0:
        raise RuntimeError("transformers did not call torch.multinomial, so held-out completions are not reproducible")


def token_at(probabilities: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """Returns the token of each row at which its cumulative probability passes the row's number.

    probabilities: (B, V), not negative; numbers: (B,) float64 in [0, 1). Returns (B, 1) int64, never a token of
    probability 0.
    """
    added = probabilities.double().cumsum(dim=-1)
    whole = added[:, -1:].contiguous()
    sought = numbers.to(added.device).unsqueeze(1) * whole
    last = torch.searchsorted(added, whole, right=False)
    return torch.minimum(torch.searchsorted(added, sought, right=True), last)
