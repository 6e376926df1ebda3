"""Completions drawn by row: the random numbers of a row are its own, whoever draws it and whatever is drawn beside it.

transformers draws all rows of a batch from one generator, so the completions of a row depend on the rows before it, on
the batch and on the process. Here each token is the one at which the probabilities, added up, pass a number in [0, 1)
that seed, row, sample and place in the completion decide. The numbers of two evaluations are the same, so what differs
between them is the policy.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy
import torch


def numbers_of(seed: int, row: int, sample: int, count: int) -> "numpy.ndarray":
    """The numbers of one completion, (count,) float64 in [0, 1), of a generator whose draws no release changes."""
    digest = hashlib.sha256(f"{seed} row {row} sample {sample}".encode()).digest()
    return numpy.random.RandomState(numpy.frombuffer(digest, dtype="<u4")).random_sample(count)


@contextmanager
def drawn_with(numbers: "Sequence[numpy.ndarray]") -> Iterator[None]:
    """Lets `generate` with do_sample draw its tokens by these numbers: one array for each row of the batch.

    It draws with torch.multinomial, once for each token of all rows. Raises RuntimeError where a release does not.
    Source: `_sample` of transformers 4.46.0 to 5.23.0, generation/utils.py.
    """
    table = torch.from_numpy(numpy.stack(numbers))
    original, place = torch.multinomial, 0

    def draw(probabilities: torch.Tensor, num_samples: int, *given: object, **named: object) -> torch.Tensor:
        nonlocal place
        found = token_at(probabilities, table[:, place])
        place += 1
        return found

    torch.multinomial = draw
    try:
        yield
    finally:
        torch.multinomial = original
    if place == 0:
        raise RuntimeError("transformers drew no token with torch.multinomial: held-out completions are not by row")


def token_at(probabilities: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
    """The token of each row at which its probabilities, added up, pass the row's number; never one of probability 0.

    probabilities: (B, V), not negative; numbers: (B,) float64 in [0, 1). Returns (B, 1) int64.
    """
    added = probabilities.double().cumsum(dim=-1)
    whole = added[:, -1:].contiguous()
    sought = numbers.to(added.device).unsqueeze(1) * whole
    last = torch.searchsorted(added, whole, right=False)
    return torch.minimum(torch.searchsorted(added, sought, right=True), last)
