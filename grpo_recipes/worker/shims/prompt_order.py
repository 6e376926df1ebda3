"""Reads prompts in the order of the newest TRL, and counts only whole optimizer steps.

Defect: before 0.16 TRL's samplers ignore optimizer steps. After the first epoch, trl 0.14 uses a different order than
every later release, and both 0.14 and 0.15 train the remaining rows of an epoch as a smaller step. TRL 0.16 to 0.19
drop these rows but count them: the learning rate schedule ends at a step that is never reached, and a resumed run
computes the wrong epoch.
Seen: trl 0.14.0, 0.15.2, 0.16.1, 0.17.0 and 0.19.1 against 1.16.0 (trainer/utils.py, RepeatSampler).
Remove when: these releases are no longer supported.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils.data import Sampler

from grpo_recipes.contract.plan import Plan


def on_trainer(trainer: Any, value: object, plan: Plan) -> str:
    """Replaces the release's order of prompts."""
    trainer.seams.change("prompts are ordered", "newest order", lambda make, *given: order_like(make(*given), trainer))
    return "prompts in the order of the newest release"


def order_like(sampler: Any, trainer: Any) -> "PromptOrder":
    """Returns the order in the units of the release's own sampler, which counts prompts or repeated rows."""
    rows, arguments = len(trainer.train_dataset), trainer.args
    if hasattr(sampler, "mini_repeat_count"):
        repeats = (sampler.mini_repeat_count, sampler.repeat_count)
        return PromptOrder(
            rows, sampler.batch_size, *repeats, arguments.seed, shuffle=getattr(sampler, "shuffle", True)
        )
    of_each = getattr(sampler, "repeat_count", 1)  # trl 0.14 counts prompts, without repeats
    rows_per_step = (
        arguments.per_device_train_batch_size
        * trainer.accelerator.num_processes
        * arguments.gradient_accumulation_steps
    )
    return PromptOrder(rows, rows_per_step // of_each, of_each, 1, arguments.seed, shuffle=True)


class PromptOrder(Sampler[int]):  # type: ignore[misc]
    """Row indices in training order; each iteration is one epoch.

    rows: how many there are. chunk: prompts whose completions are generated together. of_each: repeats of a prompt in a
    row. of_chunk: repeats of a chunk. An incomplete chunk is left out of the epoch.
    """

    def __init__(self, rows: int, chunk: int, of_each: int, of_chunk: int, seed: int, *, shuffle: bool) -> None:
        self._rows, self._chunk, self._of_each, self._of_chunk = rows, chunk, of_each, of_chunk
        self._generator = torch.Generator().manual_seed(seed) if shuffle else None

    def __len__(self) -> int:
        return self._rows // self._chunk * self._chunk * self._of_each * self._of_chunk

    def __iter__(self) -> Iterator[int]:
        places = list(range(self._rows))
        if self._generator is not None:
            places = torch.randperm(self._rows, generator=self._generator).tolist()
        for start in range(0, self._rows - self._rows % self._chunk, self._chunk):
            for _ in range(self._of_chunk):
                for row in places[start : start + self._chunk]:
                    yield from [row] * self._of_each
