"""Finds the tokens that can complete a stop string from the bytes of each token, without decoding.

This works for decoders that concatenate the bytes of tokens: byte-level, byte fallback and metaspace. If the decoded
text contains a stop string, so do the bytes, and the token that completes it begins with a part of it or contains it.
Other decoders, and tokenizers with their own `decode`, may produce something else, so nothing is assumed about their
tokens.
Source: tokenizers 0.23.3, the decoders of each type; transformers 5.23.0, TokenizersBackend._decode.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

_SPACE = "▁"
_BYTE = re.compile(r"<0x([+0-9A-Fa-f][0-9A-Fa-f])>")
_UNKNOWN = "\ufffd"  # what a decoder writes for bytes that are not text


class Completing(NamedTuple):
    """The tokens that can complete a stop string, and the bytes of all tokens.

    said: the bytes of each token, by id; larger ids have none. tokens: those that can complete one of the texts.
    of_a_run: tokens whose bytes are decoded together with their neighbours' bytes. longest: bytes of the longest text.
    """

    texts: tuple[bytes, ...]
    said: tuple[bytes, ...]
    tokens: frozenset[int]
    of_a_run: frozenset[int]
    longest: int

    def begin(self, ids: Sequence[int], index: int) -> int:
        """Returns where to start decoding for a text that the token at this index completes."""
        missing = self.longest - 1
        while index > 0 and (missing > 0 or (ids[index] in self.of_a_run and ids[index - 1] in self.of_a_run)):
            index -= 1
            missing -= len(self._of(ids[index]))
        return index

    def end(self, ids: Sequence[int], index: int) -> int:
        """Returns where to stop decoding, so that further tokens do not change the text of the token at this index."""
        while index + 1 < len(ids) and ids[index] in self.of_a_run and ids[index + 1] in self.of_a_run:
            index += 1
        return index + 1

    def may_be_in(self, ids: Sequence[int]) -> bool:
        """Whether the bytes of these tokens contain a text; if not, their decoded text contains none."""
        content = b"".join(map(self._of, ids))
        return any(text in content for text in self.texts)

    def _of(self, token: int) -> bytes:
        return self.said[token] if 0 <= token < len(self.said) else b""


def completing(tokenizer: Any, texts: Sequence[str]) -> Completing | None:
    """Returns the tokens that can complete one of the texts; None if unknown, so that everything must be decoded."""
    if not all(texts) or any(_UNKNOWN in text for text in texts) or _bytes_of(tokenizer) is None:
        return None
    return _of_vocabulary(tokenizer, tuple(texts), len(tokenizer))


@lru_cache(maxsize=4)
def _of_vocabulary(tokenizer: Any, texts: tuple[str, ...], count: int) -> Completing:
    """Analyzes the vocabulary, which takes half a second for 150,000 tokens. count: of the tokens, which may grow."""
    bytes_of, backend = _bytes_of(tokenizer), tokenizer.backend_tokenizer
    assert bytes_of is not None
    words = [backend.id_to_token(token) for token in range(max(tokenizer.get_vocab().values()) + 1)]
    contents = tuple(b"" if word is None else bytes_of(word) for word in words)
    stops = tuple(text.encode() for text in texts)
    tokens = frozenset(_that_complete(contents, stops))
    longest = max(map(len, stops))
    is_run = bytes_of is _of_a_fallback
    runs = frozenset(token for token, word in enumerate(words) if is_run and word is not None and _BYTE.fullmatch(word))
    return Completing(stops, contents, tokens, runs, longest)


def _that_complete(token_bytes: Sequence[bytes], stops: Sequence[bytes]) -> Iterator[int]:
    """Yields the indices of tokens that contain a stop, or begin with the end of one."""
    ends = {stop[start:] for stop in stops for start in range(len(stop))}
    firsts, shortest, longest = {end[0] for end in ends}, min(map(len, stops)), max(map(len, stops))
    for index, own in enumerate(token_bytes):
        begins = own and own[0] in firsts
        if begins and any(own[:count] in ends for count in range(1, min(len(own), longest) + 1)):
            yield index
        elif len(own) >= shortest:
            yield from (index for stop in stops if stop in own)


def _bytes_of(tokenizer: Any) -> Callable[[str], bytes] | None:
    """Returns a function from a vocabulary entry to its bytes; None for other decoders."""
    from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

    kind = type(tokenizer)
    if (
        not isinstance(tokenizer, PreTrainedTokenizerFast)
        or kind._decode is not PreTrainedTokenizerFast._decode
        or kind.decode not in (PreTrainedTokenizerBase.decode, PreTrainedTokenizerFast.decode)
    ):
        return None
    try:
        state = json.loads(tokenizer.backend_tokenizer.decoder.__getstate__())
    except (AttributeError, TypeError, ValueError):
        return None
    steps = [_step(decoder) for decoder in (state["decoders"] if state.get("type") == "Sequence" else [state])]
    if steps == ["ByteLevel"]:
        return _of_byte_level
    if steps == ["Metaspace"]:
        return _of_metaspace
    return _of_a_fallback if steps in (_FALLBACK, [*_FALLBACK, "Strip"]) else None


_FALLBACK = ["Replace", "ByteFallback", "Fuse"]


def _step(state: dict[str, Any]) -> str | None:
    """Returns a decoder's type if its settings are the known ones, otherwise None."""
    settings = {name: value for name, value in state.items() if name != "type"}
    known = {
        "Replace": settings == {"pattern": {"String": _SPACE}, "content": " "},
        "Metaspace": settings.get("replacement") == _SPACE,
        # Strips the start of the text, which is the end token before a completion.
        "Strip": settings == {"content": " ", "start": 1, "stop": 0},
    }
    kind = str(state.get("type"))
    return kind if known.get(kind, True) else None


def _byte_alphabet() -> dict[str, int]:
    """Returns the byte of each character in a byte-level vocabulary: printable bytes map to themselves.

    The others map to characters beyond 255.
    """
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + index): byte for index, byte in enumerate(others)}


_ALPHABET = _byte_alphabet()


def _of_byte_level(word: str) -> bytes:
    try:
        return bytes([_ALPHABET[character] for character in word])
    except KeyError:  # an added token is stored as plain text
        return word.encode()


def _of_metaspace(word: str) -> bytes:
    return word.replace(_SPACE, " ").encode()


def _of_a_fallback(word: str) -> bytes:
    byte = _BYTE.fullmatch(word)
    return _of_metaspace(word) if byte is None else bytes([int(byte[1], 16)])
