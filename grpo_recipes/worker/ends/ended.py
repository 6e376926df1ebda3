"""What ended the completions that a step trains: a stop, the model's own end token, or the longest length.

TRL's clipped ratio alone cannot tell a stop that works from one that is never reached. Seen in what TRL trains on, so
alike on every backend: completions/ended_by_stop, _by_eos and _by_length are shares that sum to 1, and
completions/with_tokens_after_end is the share with trained tokens behind what ended it, which has to be 0. All are
logged as TRL logs its own figures, over all processes. Not on trl 0.14, which makes the completions inside its loss.
A completion that mask_truncated_completions leaves out has no tokens and counts as ended by its length. Of one with
replies of tools the last turn counts, of which the reply alone is the end where no more fits.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from transformers import TrainerCallback

from grpo_recipes.contract.metric_names import TOKENS_AFTER_END
from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.inputs import watch_inputs
from grpo_recipes.worker.ends.ends import Ends, ends_of, last_turn

STOP, EOS, LENGTH = "stop", "eos", "length"
WAYS = (STOP, EOS, LENGTH)
NAMES = (*(f"completions/ended_by_{what}" for what in WAYS), TOKENS_AFTER_END)
LOOKED_AT = 256


class EndedShares(TrainerCallback):  # type: ignore[misc]
    """Counts what ends the completions of each step, and gives the shares to the trainer for its log."""

    def __init__(self, trainer: Any, plan: Plan) -> None:
        self._trainer, self._plan = trainer, plan
        self._counts = [0] * (len(NAMES) + 1)  # of each, and of all completions
        self._ends: Ends | None = None
        self._stop: Callable[[], None] | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begins to count."""
        self._ends = ends_of(self._trainer, self._plan)
        self._stop = watch_inputs(self._trainer, self._count)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """All processes call it. TRL logs the mean over the steps of a line."""
        accelerator = self._trainer.accelerator
        counts = torch.tensor(self._counts, dtype=torch.float32, device=accelerator.device)
        *found, total = accelerator.reduce(counts, reduction="sum").tolist()
        self._counts = [0] * len(self._counts)
        kept = self._trainer._metrics
        for name, count in zip(NAMES, found, strict=True):
            if total:
                kept.get("train", kept)[name].append(count / total)  # older releases keep one list for all

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Leaves the trainer as it was."""
        if self._stop is not None:
            self._stop()

    def _count(self, inputs: dict[str, Any]) -> None:
        assert self._ends is not None
        ids, lengths = inputs["completion_ids"].tolist(), inputs["completion_mask"].sum(dim=1).tolist()
        turns = inputs["tool_mask"].tolist() if "tool_mask" in inputs else [None] * len(ids)
        for tokens, length, own in zip(ids, lengths, turns, strict=True):
            way, has_more = how_ended(last_turn(tokens[:length], own), self._ends)
            self._counts[WAYS.index(way)] += 1
            self._counts[-2] += has_more
            self._counts[-1] += 1


def how_ended(ids: Sequence[int], ends: Ends) -> tuple[str, bool]:
    """What ended a completion, and whether something ended it before its last token.

    ids: its trained tokens. Texts are looked for among the last ones alone: what the policy writes is decoded anew in
    each step.
    """
    before, last = ids[:-1], ids[-1:]
    has_text, has_earlier_text = _text_ends(ids, ends)
    has_more = has_earlier_text or not frozenset(ends.tokens).isdisjoint(before)
    if not ends.own.isdisjoint(last):
        return EOS, has_more
    is_stop = (has_text and not has_earlier_text) or not frozenset(ends.tokens).isdisjoint(last)
    return STOP if is_stop else LENGTH, has_more


def _text_ends(ids: Sequence[int], ends: Ends) -> tuple[bool, bool]:
    """Whether a stop text is in the last tokens, and whether one is before the very last."""
    has_text = ends.has_text(ids[-LOOKED_AT:])
    return has_text, has_text and ends.has_text(ids[:-1][-LOOKED_AT:])
