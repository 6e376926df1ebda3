"""Stop texts are seen by the tokens that can complete them exactly where decoding everything sees them."""

import random
from typing import Any

import pytest

pytestmark = pytest.mark.stack

END, SPECIAL = "</s>", "<|tool|>"
MARKED = ("▁", "▁stop", "stop", "s", "top", "x", "▁x", "<0xC3>", "<0xA9>", "x<0xC3>", "op▁x", "<0x73>", "<0xE2>", "é")
BYTES = ("Ġ", "Ġstop", "stop", "s", "top", "x", "Ġx", "Ã", "©", "xÃ", "opĠx", "©s", "â", "Ã©")
PIECES = ("stop", "##stop", "##s", "top", "##top", "x", "##x", "é", "##é", "s", "op", "##op", ".", "a")
ADDED = "<a b>"
STOPS = (
    "stop",
    " stop",
    "x stop",
    "é",
    "xé",
    "és",
    "sto",
    "  ",
    SPECIAL,
    f"{SPECIAL}x",
    "xx",
    "b>",
    ADDED,
    f"{ADDED}é",
)
FAMILIES = ("byte-level", "metaspace", "llama", "gemma")
OTHERS = ("wordpiece", "no decoder", "another replacement", "a decode of its own")
ROUNDS, LENGTH = 250, 14


def _decoder(family: str) -> Any:
    from tokenizers import decoders

    fallback = [decoders.ByteFallback(), decoders.Fuse()]
    return {
        "byte-level": decoders.ByteLevel(),
        "metaspace": decoders.Metaspace(),
        "llama": decoders.Sequence([decoders.Replace("▁", " "), *fallback, decoders.Strip(" ", 1, 0)]),
        "gemma": decoders.Sequence([decoders.Replace("▁", " "), *fallback]),
        "wordpiece": decoders.WordPiece(),
        "no decoder": None,
        "another replacement": decoders.Sequence([decoders.Replace("x", " "), *fallback]),
        "a decode of its own": decoders.ByteLevel(),
    }[family]


def _tokenizer(family: str) -> Any:
    from tokenizers import AddedToken, Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    own = BYTES if family in ("byte-level", "a decode of its own") else PIECES if family == "wordpiece" else MARKED
    words = (END, SPECIAL, *own)
    tokens = Tokenizer(models.BPE(vocab={word: place for place, word in enumerate(words)}, merges=[]))
    if (decoder := _decoder(family)) is not None:
        tokens.decoder = decoder
    tokens.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in (END, SPECIAL)])
    tokens.add_tokens([AddedToken(ADDED, normalized=False)])

    class Shouting(PreTrainedTokenizerFast):  # type: ignore[misc]
        def _decode(self, *given: Any, **named: Any) -> str:
            return f"{super()._decode(*given, **named)}".replace("x", "stop")

    kind = Shouting if family == "a decode of its own" else PreTrainedTokenizerFast
    return kind(tokenizer_object=tokens, eos_token=END, pad_token=END)


def _draws(family: str, seed: int) -> tuple[Any, random.Random, int]:
    """The tokenizer, and how many ids are drawn of: some behind its vocabulary, as a model has rows for."""
    tokenizer = _tokenizer(family)
    return tokenizer, random.Random(seed), len(tokenizer) + 2


def _decoded(tokenizer: Any, ids: list[int]) -> str:
    """All of it behind an end token, as one text."""
    behind: str = tokenizer.decode([0, *ids], skip_special_tokens=False, clean_up_tokenization_spaces=False)
    return behind.removeprefix(tokenizer.decode([0], skip_special_tokens=False, clean_up_tokenization_spaces=False))


def _by_decoding(tokenizer: Any, ids: list[int], stops: tuple[str, ...]) -> int | None:
    """The first token with which the text of the whole has a stop in it."""
    counts = range(1, len(ids) + 1)
    return next((n for n in counts if any(stop in _decoded(tokenizer, ids[:n]) for stop in stops)), None)


@pytest.mark.parametrize("family", [*FAMILIES, *OTHERS])
def test_a_text_is_seen_where_decoding_everything_sees_it(family: str) -> None:
    from grpo_recipes.worker.ends.ends import Ends

    tokenizer, draws, count = _draws(family, 0)
    found = 0
    for _ in range(ROUNDS):
        ids = [draws.randrange(1, count) for _ in range(LENGTH)]
        stops = tuple(draws.sample(STOPS, draws.choice((1, 1, 2))))
        ends = Ends((0,), stops, tokenizer)
        assert (ends.completing is not None) == (family in FAMILIES)
        right = _by_decoding(tokenizer, ids, stops)
        told = (tokenizer.convert_ids_to_tokens(ids), stops)
        assert ends.has_text(ids) == any(stop in _decoded(tokenizer, ids) for stop in stops), told
        if family in FAMILIES:
            assert ends.first(ids) == right, told
        found += right is not None
    assert ROUNDS / 4 < found < ROUNDS


@pytest.mark.parametrize("family", FAMILIES)
def test_generation_ends_with_the_token_that_completes_a_text(family: str) -> None:
    """Rows of one generation, token by token; a prompt that has the text, or begins it, ends nothing."""
    import torch

    from grpo_recipes.worker.ends.ends import Ends, StopTexts

    tokenizer, draws, count = _draws(family, 1)
    prompt, rows, ended = 3, 12, 0
    for _ in range(ROUNDS // 10):
        stops = tuple(draws.sample(STOPS, 2))
        stopping = StopTexts(Ends((0,), stops, tokenizer))
        ids = torch.tensor([[draws.randrange(1, count) for _ in range(prompt + LENGTH)] for _ in range(rows)])
        found: list[int | None] = [None] * rows
        for width in range(prompt + 1, prompt + LENGTH + 1):
            for row, is_end in enumerate(stopping(ids[:, :width], None).tolist()):
                if is_end and found[row] is None:
                    found[row] = width - prompt
        assert found == [_by_decoding(tokenizer, row[prompt:], stops) for row in ids.tolist()], stops
        ended += sum(one is not None for one in found)
    assert ended > ROUNDS // 10


def test_several_tokens_at_once_are_all_looked_at() -> None:
    import torch

    from grpo_recipes.worker.ends.ends import Ends, StopTexts

    tokenizer = _tokenizer("byte-level")
    s, top, x = (tokenizer.convert_tokens_to_ids(word) for word in ("s", "top", "x"))
    stopping = StopTexts(Ends((0,), ("stop",), tokenizer))
    ids = torch.tensor([[x, s, x, x, x], [x, s, top, x, x]])
    assert stopping(ids[:, :2], None).tolist() == [False, False]
    assert stopping(ids, None).tolist() == [False, True]


def test_a_text_behind_a_long_run_of_bytes_is_seen() -> None:
    """Bytes of fallback are text together or not at all, so a part of a run may say nothing."""
    import torch

    from grpo_recipes.worker.ends.ends import Ends, StopTexts

    tokenizer = _tokenizer("llama")
    first, second, x = (tokenizer.convert_tokens_to_ids(word) for word in ("<0xC3>", "<0xA9>", "x"))
    ids = [x, *[first, second] * 20]
    for width, right in ((len(ids) - 1, False), (len(ids), True)):
        stopping = StopTexts(Ends((0,), ("é" * 20,), tokenizer))
        row = torch.tensor([[x, *ids[:width]]])
        for end in range(2, width + 1):
            assert stopping(row[:, :end], None).tolist() == [False]
        assert stopping(row, None).tolist() == [right]


def test_only_tokens_with_a_part_of_the_text_are_looked_at() -> None:
    from grpo_recipes.worker.ends.ends import Ends

    tokenizer = _tokenizer("byte-level")
    known = Ends((0,), ("x stop",), tokenizer).completing
    assert known is not None
    assert set(tokenizer.convert_ids_to_tokens(sorted(known.tokens))) == {"Ġstop", "stop", "top", "opĠx"}
    assert Ends((0,), ("�",), tokenizer).completing is None, "what says it may be bytes that are no text"


def test_tokens_that_are_added_later_are_known() -> None:
    from grpo_recipes.worker.ends.ends import Ends

    tokenizer = _tokenizer("byte-level")
    assert Ends((0,), ("stop",), tokenizer).first([len(tokenizer)]) is None
    tokenizer.add_tokens(["<stop>"])
    assert Ends((0,), ("stop",), tokenizer).first([len(tokenizer) - 1]) == 1
