"""Questions to a tokenizer about single tokens."""

from typing import Any


def token_id(tokenizer: Any, text: str) -> int | None:
    """The id of a text that is one token of the vocabulary, None where it is none."""
    found = tokenizer.get_vocab().get(text)
    return None if found is None else int(found)


def special_tokens(tokenizer: Any) -> dict[int, str]:
    """Tokens that decoding without special tokens leaves out: the named ones, and added ones that are marked so."""
    found = dict(zip(tokenizer.all_special_ids, tokenizer.all_special_tokens, strict=True))
    added = getattr(tokenizer, "added_tokens_decoder", {})
    return found | {int(each): str(token) for each, token in added.items() if getattr(token, "special", False)}


def word(tokenizer: Any, token: int) -> str:
    """A token in a message."""
    return repr(tokenizer.decode([token])) if token < len(tokenizer) else f"{token} (no token)"
