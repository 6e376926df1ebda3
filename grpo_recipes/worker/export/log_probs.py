"""How likely a model thinks the tokens of completions are."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch


class ProofText(NamedTuple):
    """The tokens of one text. prompt: how many of them, at least one, come before those that are looked at."""

    ids: list[int]
    prompt: int


def log_probs(model: Any, texts: Sequence[ProofText], count: Callable[[], None]) -> list[float]:
    """The log-probability of each token behind the prompts, at temperature 1. count: called after each text."""
    found: list[float] = []
    device = next(model.parameters()).device
    with torch.inference_mode():
        for text in texts:
            ids = torch.tensor([text.ids], device=device)
            logits = model(input_ids=ids, use_cache=False).logits[0, text.prompt - 1 : -1]  # (T, V)
            chosen = ids[0, text.prompt :, None].to(logits.device)
            for rows, tokens in zip(logits.split(256), chosen.split(256), strict=True):
                found += torch.log_softmax(rows.float(), -1).gather(1, tokens)[:, 0].tolist()
            count()
    return found
