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

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.inputs import watch_inputs
from grpo_recipes.worker.ends.ends import Ends, end_tokens, ends_of

STOP, EOS, LENGTH = "stop", "eos", "length"
AFTER = "completions/with_tokens_after_end"
WAYS = (STOP, EOS, LENGTH)
NAMES = (*(f"completions/ended_by_{what}" for what in WAYS), AFTER)
LOOKED_AT = 256


class EndedShares(TrainerCallback):  # type: ignore[misc]
    """Counts what ends the completions of each step, and gives the shares to the trainer for its log."""

    def __init__(self, trainer: Any, plan: Plan) -> None:
        self._trainer, self._plan = trainer, plan
        self._counts = [0] * (len(NAMES) + 1)  # of each, and of all completions
        self._ends: Ends | None = None
        self._own_ends: frozenset[int] = frozenset()
        self._stop: Callable[[], None] | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begins to count."""
        self._ends = ends_of(self._trainer, self._plan)
        self._own_ends = frozenset(end_tokens(self._trainer))
        self._stop = watch_inputs(self._trainer, self._count)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """All processes call it. TRL logs the mean over the steps of a line."""
        counts = torch.tensor(self._counts, dtype=torch.float32, device=self._trainer.accelerator.device)
        *found, total = self._trainer.accelerator.reduce(counts, reduction="sum").tolist()
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
        own = inputs.get("tool_mask")
        for place, count in enumerate(
            counted(inputs["completion_ids"], inputs["completion_mask"], own, self._ends, self._own_ends)
        ):
            self._counts[place] += count


def counted(ids: Any, mask: Any, own: Any, ends: Ends, own_ends: frozenset[int]) -> list[int]:
    """How many completions ended in each of WAYS, how many have more behind an end, and how many there are.

    ids, mask: (B, C); own: (B, C), ones for tokens of the policy, or None. As how_ended() says of each one.
    """
    places = torch.arange(ids.shape[1], device=ids.device)
    count = mask.sum(dim=1, keepdim=True)
    first = torch.zeros_like(count) if own is None else _begin_of_last_turn(own, count, places)
    inside, is_last = (places >= first) & (places < count), (places == count - 1) & (count > first)
    is_end, is_own_end = (
        torch.isin(ids, torch.tensor(sorted(some), dtype=ids.dtype, device=ids.device))
        for some in (ends.tokens, own_ends)
    )
    has_text, has_earlier_text = _with_texts(ids, first, count, inside & (places >= count - 1 - LOOKED_AT), ends)
    by_eos = (is_own_end & is_last).any(dim=1)
    by_stop = ~by_eos & ((has_text & ~has_earlier_text) | (is_end & is_last).any(dim=1))
    has_more = has_earlier_text | (is_end & inside & ~is_last).any(dim=1)
    sums: list[int] = torch.stack([by_stop, by_eos, ~by_stop & ~by_eos, has_more]).sum(dim=1).tolist()
    return [*sums, len(ids)]


def _begin_of_last_turn(own: Any, count: Any, places: Any) -> Any:
    """(B, 1): as last_turn()."""
    replies = (own[:, : len(places)] == 0) & (places < count)
    return ((places + 1) * replies).amax(dim=1, keepdim=True)


def _with_texts(ids: Any, first: Any, count: Any, looked_at: Any, ends: Ends) -> tuple[Any, Any]:
    """Two (B,) bool: as _text_ends(). Only rows with a token that can complete a stop text are looked at themselves."""
    found = torch.zeros(2, len(ids), dtype=torch.bool, device=ids.device)
    if not ends.texts:
        return found[0], found[1]
    can_have = torch.ones_like(found[0]) if ends.completing is None else (ends.that_complete(ids) & looked_at).any(1)
    rows = can_have.nonzero().flatten()
    if len(rows):
        last = torch.arange(-LOOKED_AT - 1, 0, device=ids.device)
        tails = ids[rows].gather(1, (count[rows] + last).clamp(min=0)).tolist()
        lengths = (count - first)[rows, 0].clamp(max=LOOKED_AT + 1).tolist()
        told = [_text_ends(tail[len(tail) - length :], ends) for tail, length in zip(tails, lengths, strict=True)]
        found[:, rows] = torch.tensor(told, dtype=torch.bool, device=ids.device).T
    return found[0], found[1]


def how_ended(ids: Sequence[int], ends: Ends, own_ends: frozenset[int]) -> tuple[str, bool]:
    """What ended a completion, and whether something ended it before its last token.

    ids: its trained tokens. own_ends: those of the model; any other end is a stop. Texts are looked for among the last
    tokens alone: what the policy writes is decoded anew in each step.
    """
    before, last = ids[:-1], ids[-1:]
    has_text, has_earlier_text = _text_ends(ids, ends)
    has_more = has_earlier_text or not frozenset(ends.tokens).isdisjoint(before)
    if not own_ends.isdisjoint(last):
        return EOS, has_more
    is_stop = (has_text and not has_earlier_text) or not frozenset(ends.tokens).isdisjoint(last)
    return STOP if is_stop else LENGTH, has_more


def _text_ends(ids: Sequence[int], ends: Ends) -> tuple[bool, bool]:
    """Whether a stop text is in the last tokens, and whether one is before the very last."""
    has_text = ends.has_text(ids[-LOOKED_AT:])
    return has_text, has_text and ends.has_text(ids[:-1][-LOOKED_AT:])
