"""Finds where a completion ends: at its first end token, or at the token that completes a stop string."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from transformers import StoppingCriteria, StoppingCriteriaList

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker.ends.token_bytes import Completing, completing

# A window that starts inside a multi-byte character must still hold a whole stop string.
MARGIN_TOKENS = 4


@dataclass(frozen=True)
class Ends:
    """The tokens and texts that end a completion. They count only in the completion, never in the prompt.

    tokens: ids that end it. texts: the token that completes one of them ends it. own: the tokens that are the model's;
    the others are stops.
    """

    tokens: tuple[int, ...]
    texts: tuple[str, ...]
    tokenizer: Any
    own: frozenset[int] = frozenset()

    @cached_property
    def completing(self) -> Completing | None:
        """Returns the tokens that can complete a text; None without texts, or if the tokenizer does not reveal them."""
        return completing(self.tokenizer, self.texts) if self.texts else None

    @cached_property
    def _tables(self) -> dict[Any, Any]:
        return {}

    def that_complete(self, ids: Any) -> Any:
        """Whether each token of a tensor is one of `completing`, which must be known; on the tensor's device."""
        assert self.completing is not None
        table = self._tables.get(ids.device)
        if table is None:
            table = torch.zeros(len(self.completing.said) + 1, dtype=torch.bool)  # the last entry is for larger ids
            table[sorted(self.completing.tokens)] = True
            table = self._tables[ids.device] = table.to(ids.device)
        return table[ids.clamp(max=len(table) - 1)]

    def first(self, ids: Sequence[int]) -> int | None:
        """Returns the number of tokens up to and including the first end, None without an end."""
        by_token = min((ids.index(token) + 1 for token in self.tokens if token in ids), default=None)
        head = ids[:by_token]
        known = self.completing
        if known is None:
            if not self.has_text(head):
                return by_token
            return bisect_left(range(len(head) + 1), True, key=lambda count: self._say(head[:count]))
        if known.tokens.isdisjoint(head):
            return by_token
        places = (index for index, token in enumerate(head) if token in known.tokens)
        return next((index + 1 for index in places if self.has_text_at(head, index)), by_token)

    def has_text(self, ids: Sequence[int]) -> bool:
        """Whether the text of these tokens, including special ones, contains a stop string."""
        if not self.texts:
            return False
        known = self.completing
        if known is None:
            return self._say(ids)
        if known.tokens.isdisjoint(ids):
            return False
        places = [index for index, token in enumerate(ids) if token in known.tokens]
        some = ids[known.begin(ids, places[0]) : known.end(ids, places[-1])]
        return known.may_be_in(some) and self._say(some)

    def has_text_at(self, ids: Sequence[int], index: int) -> bool:
        """Whether the token at this index, which is one of `completing`, completes a stop string."""
        assert self.completing is not None
        some = ids[self.completing.begin(ids, index) : index + 1]
        return self.completing.may_be_in(some) and self._say(some)

    def _say(self, ids: Sequence[int]) -> bool:
        text = self._text(ids)
        return any(each in text for each in self.texts)

    def _text(self, ids: Sequence[int]) -> str:
        """Returns the text of the tokens after another token: some tokenizers strip the space of the first word."""
        before, whole = (
            self.tokenizer.decode(tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False)
            for tokens in ([self.tokenizer.eos_token_id], [self.tokenizer.eos_token_id, *ids])
        )
        return str(whole).removeprefix(before)

    def added_tokens_with_text(self) -> list[int]:
        """Returns the ids of added tokens, including special ones, that contain a whole stop string."""
        return sorted(token for token in self.tokenizer.get_added_vocab().values() if self.has_text([token]))

    def criteria(self) -> StoppingCriteriaList:
        """Returns the criteria that end rows of `generate` at stop strings; its configuration has the end tokens."""
        return StoppingCriteriaList([StopTexts(self)] if self.texts else [])


def last_turn(ids: list[int], own: Sequence[int] | None) -> list[int]:
    """Returns the tokens of the policy's last turn. own: 1 for its tokens, 0 for replies; None if all are its own.

    [] if a reply comes last.
    """
    if own is None:
        return ids
    after = next((index for index in range(len(ids), 0, -1) if not own[index - 1]), 0)
    return ids[after:]


class StopTexts(StoppingCriteria):  # type: ignore[misc]
    """Ends each row of a generation with the token that completes a stop string in its completion.

    A row is decoded if its newest token can complete a text, or always if that is unknown.
    """

    def __init__(self, ends: Ends) -> None:
        self._ends = ends
        self._prompt: int | None = None
        self._looked_at = 0
        # Every token in a text adds at least one byte of it, except for a few that are empty.
        self._window = max(len(text.encode()) for text in ends.texts) + MARGIN_TOKENS

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        """Whether each row has ended. input_ids: (B, L), prompts and completions so far; returns (B,) bool."""
        width = input_ids.shape[1]
        if self._prompt is None:
            self._prompt = self._looked_at = width - 1  # the first call has one new token
        completions, new = input_ids[:, self._prompt :], input_ids[:, self._looked_at :]
        self._looked_at = width
        ended = torch.zeros(input_ids.shape[0], dtype=torch.bool, device=input_ids.device)
        known = self._ends.completing
        if known is None:
            stops = [self._has_text(tail, row) for tail, row in zip(self._tails(completions), completions, strict=True)]
            return torch.tensor(stops, dtype=torch.bool, device=input_ids.device)
        rows = self._ends.that_complete(new).any(dim=1).nonzero().flatten()
        if len(rows) == 0:
            return ended
        of_rows = completions[rows]
        is_one = new.shape[1] == 1
        stops = [
            self._ends_at_last(known, tail, row) if is_one else self._ends.has_text(row.tolist())
            for tail, row in zip(self._tails(of_rows), of_rows, strict=True)
        ]
        ended[rows] = torch.tensor(stops, dtype=torch.bool, device=input_ids.device)
        return ended

    def _tails(self, completions: Any) -> list[list[int]]:
        tails: list[list[int]] = completions[:, -self._window :].tolist()
        return tails

    def _has_text(self, tail: list[int], row: Any) -> bool:
        return self._ends.has_text(tail) and (len(tail) == len(row) or self._ends.has_text(row.tolist()))

    def _ends_at_last(self, known: Completing, tail: list[int], row: Any) -> bool:
        last = len(tail) - 1
        if len(tail) < len(row) and known.begin(tail, last) == 0:
            tail, last = row.tolist(), len(row) - 1
        return self._ends.has_text_at(tail, last)


def ends_of(trainer: Any, plan: Plan) -> Ends:
    """Returns what ends a completion in this run: the model's end tokens and the plan's stops."""
    own = end_tokens(trainer)
    tokens = dict.fromkeys([*own, *plan.expect.stop_token_ids])
    return Ends(tuple(tokens), tuple(plan.expect.stop), tokenizer_of(trainer), frozenset(own))


def end_tokens(trainer: Any) -> list[int]:
    """Returns the tokens that end a completion, as in the newest TRL: the tokenizer's and those the model declares."""
    declared = trainer.model.generation_config.eos_token_id
    ends = declared if isinstance(declared, list) else [] if declared is None else [declared]
    own = int(tokenizer_of(trainer).eos_token_id)
    return ends if own in ends else [own, *ends]


def tokenizer_of(trainer: Any) -> Any:
    """Returns the tokenizer, also if it is inside a processor."""
    return getattr(trainer.processing_class, "tokenizer", trainer.processing_class)


STOP, EOS, LENGTH = "stop", "eos", "length"
LOOKED_AT = 256


def how_ended(ids: Sequence[int], ends: Ends) -> tuple[str, bool]:
    """Returns what ended a completion, and whether an end came before its last token.

    ids: its trained tokens. Texts are searched only among the last tokens: the policy's output is decoded in each step.
    """
    before, last = ids[:-1], ids[-1:]
    has_text, has_earlier_text = _text_ends(ids, ends)
    has_more = has_earlier_text or not frozenset(ends.tokens).isdisjoint(before)
    if not ends.own.isdisjoint(last):
        return EOS, has_more
    is_stop = (has_text and not has_earlier_text) or not frozenset(ends.tokens).isdisjoint(last)
    return STOP if is_stop else LENGTH, has_more


def _text_ends(ids: Sequence[int], ends: Ends) -> tuple[bool, bool]:
    """Whether a stop string is in the last tokens, and whether one ends before the very last."""
    has_text = ends.has_text(ids[-LOOKED_AT:])
    return has_text, has_text and ends.has_text(ids[:-1][-LOOKED_AT:])
