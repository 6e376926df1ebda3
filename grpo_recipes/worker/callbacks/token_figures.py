"""Makes a step's entropy, kl and clip ratios means over its trained tokens, however it is cut into micro-batches.

TRL averages each figure over the tokens of a micro-batch, then over micro-batches: one whose completions are all masked
counts as 0, or as NaN in older releases, as much as the others. Here each micro-batch counts by its tokens over all
processes, and a step without a trained token has none of these figures. With sequence ratios, TRL has one value for
each completion; there, completions with trained tokens count. VESPO's weight is always one of each completion, and all
of a micro-batch with a trained token count. clip_ratio/low_min and high_max are the extremes of the step. Not on trl
0.14 and 0.15, which average kl over completions and mask none.
Source: `_compute_loss` and `compute_liger_loss` of trl 0.16.0 to 1.16.0.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from transformers import TrainerCallback

from grpo_recipes.contract.metric_names import (
    CLIP_ALL,
    CLIP_CISPO,
    CLIP_HIGH,
    CLIP_HIGHEST,
    CLIP_LOW,
    CLIP_LOWEST,
    ENTROPY,
    KL,
    VESPO_WEIGHT,
)
from grpo_recipes.worker._shared.library import has_fused_loss
from grpo_recipes.worker._shared.replacing import replace_temporarily

RATIOS = (CLIP_ALL, CLIP_LOW, CLIP_HIGH, "clip_ratio", CLIP_CISPO)
EXTREMES = {CLIP_LOWEST: min, CLIP_HIGHEST: max}
NAMES = (KL, ENTROPY, *RATIOS, *EXTREMES, VESPO_WEIGHT)


class TokenFigures(TrainerCallback):  # type: ignore[misc]
    """Takes the figures of each micro-batch out of TRL's lists, and adds one value for each step."""

    def __init__(self, trainer: Any) -> None:
        self._trainer, self._standing = trainer, ExitStack()
        self._is_by_row = trainer.seams.value("importance_sampling_level") == "sequence"
        self._always_logged = [*([KL] if trainer.args.beta else []), *([] if has_fused_loss(trainer) else [ENTROPY])]
        self._values: dict[str, list[float]] = defaultdict(list)  # one per micro-batch
        self._counts: list[Any] = []  # of each micro-batch: trained tokens, completions with any, completions

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Stands around the trainer's loss."""
        if self._trainer.seams.does("figures of training are apart"):
            remove = self._trainer.seams.change("loss is computed", "figures by tokens", self._compute)
            self._standing.callback(remove)

    def _compute(self, compute: Callable[..., Any], model: Any, inputs: Any, *given: Any, **named: Any) -> Any:
        if not self._trainer.model.training:
            return compute(model, inputs, *given, **named)
        logged = self._trainer.seams.figures()
        before = {name: logged.pop(name) for name in NAMES if name in logged}
        tokens = (inputs["completion_mask"] * inputs.get("tool_mask", 1)).sum(1)
        with self._gathering_by_tokens(tokens.sum()) as means:
            loss = compute(model, inputs, *given, **named)
        if not self._counts:
            self._trainer.seams.refuse_without(*self._always_logged)
        for name in NAMES:
            values = logged.pop(name, [])
            if means and name in (KL, ENTROPY):
                values = [value if math.isnan(value) else means[value] for value in values]
            self._values[name] += values
        logged.update(before)
        self._counts.append(torch.stack([tokens.sum(), (tokens > 0).sum(), torch.tensor(len(tokens)).to(tokens)]))
        return loss

    @contextmanager
    def _gathering_by_tokens(self, own: Any) -> Iterator[dict[float, float]]:
        """Makes TRL before 1.12 weigh the mean of each process by its tokens inside a with block.

        It gathers a mean of each process, and takes the mean and extremes of those that are not NaN. Each is repeated
        for the tokens of its process. With sequence ratios, the means of ratios are over completions: nothing is
        repeated, and yields TRL's means, each with the one by tokens. own: the tokens of this process.
        """
        standing, accelerator, by_tokens = ExitStack(), self._trainer.accelerator, dict[float, float]()
        if accelerator.num_processes == 1 or self._trainer.seams.does("figures are weighed over processes"):
            yield by_tokens
            return
        counts = accelerator.gather(own.reshape(1))

        def gather_and_weigh(gather: Any, value: Any) -> Any:
            means = gather(value)
            if value.ndim > 0:
                return means
            repeated = means.repeat_interleave(counts)
            by_tokens[means.nanmean().item()] = repeated.nanmean().item()
            return means if self._is_by_row else repeated

        with standing:
            for name in ("gather", "gather_for_metrics"):
                replaced = partial(gather_and_weigh, getattr(accelerator, name))
                standing.enter_context(replace_temporarily(accelerator, name, replaced))
            yield by_tokens if self._is_by_row else {}

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Adds the step's values. All processes must call it. TRL logs the mean over the steps of a line."""
        if not self._counts:
            return
        counts = self._trainer.accelerator.reduce(torch.stack(self._counts), reduction="sum").tolist()
        for name, values in self._values.items():
            value = _of_step(name, values, counts, by_row=self._is_by_row and name in RATIOS)
            if value is not None:
                self._trainer.seams.figures()[name].append(value)
        self._values.clear()
        self._counts.clear()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Restores the trainer's loss."""
        self._standing.close()


def _of_step(name: str, values: Sequence[float], counts: Sequence[Sequence[int]], *, by_row: bool) -> float | None:
    """Returns a figure of a step from those of its micro-batches, None without one.

    counts: trained tokens, completions with any, completions; of each micro-batch. by_row: TRL averaged over all
    completions, of which those without a trained token have no ratio that is clipped.
    """
    if len(values) != len(counts):
        return None
    known = [(value, count) for value, count in zip(values, counts, strict=True) if count[0] and not math.isnan(value)]
    if not known:
        return None
    if name in EXTREMES:
        return EXTREMES[name](value for value, _ in known)
    own, total = (2, 2) if name == VESPO_WEIGHT else (2, 1) if by_row else (0, 0)
    return sum(value * count[own] for value, count in known) / sum(count[total] for _, count in known)
