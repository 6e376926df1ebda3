"""Tokenizes the gold answers of a warm start as its steps train them."""

from typing import Any, NamedTuple

from grpo_recipes.worker._shared.prefill import Prefill
from grpo_recipes.worker.data.gold_rows import GoldRow, gold_tokens
from grpo_recipes.worker.data.prompt_tokens import PromptTokens
from grpo_recipes.worker.preflight._shared.reward_seen import TRAINED
from grpo_recipes.worker.preflight._shared.seen import Rows, Seen


def tokenize_golds(inputs: Seen, gold: Rows | None, tokens: PromptTokens) -> None:
    """Adds the gold completions of the sample to what was examined. gold: the rows with answers, None if unreadable."""
    if gold is None or inputs.ends is None or inputs.template_problem:
        return
    prefill = Prefill.of_plan(inputs.plan, lambda: inputs.processor or inputs.tokenizer)
    ends = _FirstEnd((*inputs.ends.tokens, *inputs.ends.stop_token_ids), inputs.ends.stops, inputs.tokenizer)
    inputs.golds = gold_tokens(gold.rows.select(inputs.sample), inputs.plan, tokens, ends, prefill)


def trained_texts(inputs: Seen) -> dict[str, list[str]]:
    """Returns the texts that rewards would get for the gold completions, as a kind of completion; {} without any."""
    golds = [gold.completion if isinstance(gold, GoldRow) else [] for gold in inputs.golds]
    return {TRAINED: [inputs.tokenizer.decode(ids, skip_special_tokens=True) for ids in golds]} if golds else {}


class _FirstEnd(NamedTuple):
    """What ends a completion, found without torch."""

    tokens: tuple[int, ...]
    stops: tuple[str, ...]
    tokenizer: Any

    def first(self, ids: list[int]) -> int | None:
        """Returns the number of tokens up to and including the first end, None without one."""
        for count, token in enumerate(ids, 1):
            if token in self.tokens or (self.stops and self._has_stop(ids[:count])):
                return count
        return None

    def _has_stop(self, ids: list[int]) -> bool:
        text = self.tokenizer.decode(ids)
        return any(stop in text for stop in self.stops)
