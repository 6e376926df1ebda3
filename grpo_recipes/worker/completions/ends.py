"""Where a completion ends: at its first end token, or at the token that completes a stop text."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import StoppingCriteria, StoppingCriteriaList

from grpo_recipes.contract.plan import Plan

# A window that begins inside a character of several bytes still has a whole stop text.
MARGIN_TOKENS = 4


@dataclass(frozen=True, slots=True)
class Ends:
    """What ends a completion; its own tokens are looked at, never those of its prompt.

    tokens: ids, each of which ends it. texts: the token that completes one of them ends it.
    """

    tokens: tuple[int, ...]
    texts: tuple[str, ...]
    tokenizer: Any

    def first(self, ids: Sequence[int]) -> int | None:
        """How many tokens there are up to and with the first that ends them, None where none does."""
        by_token = next((place + 1 for place, token in enumerate(ids) if token in self.tokens), None)
        kept = ids[:by_token]
        if not self.has_text(kept):
            return by_token
        return bisect_left(range(len(kept) + 1), True, key=lambda count: self.has_text(kept[:count]))

    def has_text(self, ids: Sequence[int]) -> bool:
        """Whether the text of these tokens, special ones included, has a stop text in it."""
        if not self.texts:
            return False
        text = self._text(ids)
        return any(each in text for each in self.texts)

    def _text(self, ids: Sequence[int]) -> str:
        """What the tokens say behind another token: some tokenizers take the space from the first word of a text."""
        before, whole = (
            self.tokenizer.decode(tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False)
            for tokens in ([self.tokenizer.eos_token_id], [self.tokenizer.eos_token_id, *ids])
        )
        return str(whole).removeprefix(before)

    def added_tokens_with_text(self) -> list[int]:
        """The ids of added tokens, special ones included, each of which has a whole stop text in it."""
        return sorted(token for token in self.tokenizer.get_added_vocab().values() if self.has_text([token]))

    def criteria(self) -> StoppingCriteriaList:
        """What ends the rows of one call of `generate` at stop texts; end tokens are in its configuration."""
        return StoppingCriteriaList([StopTexts(self)] if self.texts else [])


def last_turn(ids: list[int], own: Sequence[int] | None) -> list[int]:
    """The tokens of the last turn that the policy wrote. own: ones for its tokens, zeros for replies; None without any.

    [] where a reply comes last.
    """
    if own is None:
        return ids
    after = next((place for place in range(len(ids), 0, -1) if not own[place - 1]), 0)
    return ids[after:]


class StopTexts(StoppingCriteria):  # type: ignore[misc]
    """Ends each row of one generation with the token that completes a stop text in its completion."""

    def __init__(self, ends: Ends) -> None:
        self._ends = ends
        self._prompt: int | None = None
        # Each token that takes part in a text has at least one byte of it.
        self._window = max(len(text.encode()) for text in ends.texts) + MARGIN_TOKENS

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        """Which rows have ended. input_ids: (B, L), prompts and completions so far; gives (B,) bool."""
        if self._prompt is None:
            self._prompt = input_ids.shape[1] - 1  # the first call comes with the first new token
        completions = input_ids[:, self._prompt :]
        ended = [
            self._ends.has_text(tail) and (len(tail) == completions.shape[1] or self._ends.has_text(row.tolist()))
            for tail, row in zip(completions[:, -self._window :].tolist(), completions, strict=True)
        ]
        return torch.tensor(ended, dtype=torch.bool, device=input_ids.device)


def ends_of(trainer: Any, plan: Plan) -> Ends:
    """What ends a completion in this run: the model's own end tokens and the plan's stops."""
    tokens = dict.fromkeys([*end_tokens(trainer), *plan.expect.stop_token_ids])
    return Ends(tuple(tokens), tuple(plan.expect.stop), tokenizer_of(trainer))


def end_tokens(trainer: Any) -> list[int]:
    """The tokens that end a completion, as for the newest TRL: the tokenizer's and those the model declares."""
    declared = trainer.model.generation_config.eos_token_id
    ends = declared if isinstance(declared, list) else [] if declared is None else [declared]
    own = int(tokenizer_of(trainer).eos_token_id)
    return ends if own in ends else [own, *ends]


def tokenizer_of(trainer: Any) -> Any:
    """The tokenizer, also where a processor has it."""
    return getattr(trainer.processing_class, "tokenizer", trainer.processing_class)
