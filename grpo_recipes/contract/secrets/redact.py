"""Secrets hidden from everything that is printed or written, and a terminal from what would steer it."""

import re
from collections.abc import Sequence
from functools import cache, lru_cache

from grpo_recipes.contract.secrets.known_secrets import KnownSecrets, known_secrets
from grpo_recipes.contract.secrets.secret_shapes import Span, beside_spans, certain_spans

HIDDEN = "<redacted>"
_HIDDEN = HIDDEN.encode()
_SHORT = 256
"""Bytes of a text whose secrets are remembered."""
_FIGURES = (float, int)


def secret_spans(text: bytes) -> list[Span]:
    """Where a text has secrets: start and end of each, in order, none touching another."""
    return list(_spans(text, known_secrets()))


def _spans(text: bytes, known: KnownSecrets) -> Sequence[Span]:
    return _short_spans(text, known) if len(text) <= _SHORT else _looked_for(text, known)


@lru_cache(maxsize=1 << 12)
def _short_spans(text: bytes, known: KnownSecrets) -> tuple[Span, ...]:
    """As _spans: run.json is written many times with the same words in it."""
    return tuple(_looked_for(text, known))


def _looked_for(text: bytes, known: KnownSecrets) -> list[Span]:
    lower = text.lower()
    found = [*_known_spans(text, known), *certain_spans(text, lower), *beside_spans(text, lower)]
    found.sort()
    apart: list[Span] = []
    for start, end in found:
        if apart and start <= apart[-1][1]:
            if end > apart[-1][1]:
                apart[-1] = (apart[-1][0], end)
        elif end > start:
            apart.append((start, end))
    return apart


def _known_spans(text: bytes, known: KnownSecrets) -> list[Span]:
    found = []
    for value in known.anywhere:
        start = text.find(value)
        while start >= 0:
            found.append((start, start + len(value)))
            start = text.find(value, start + len(value))
    if known.words is not None:
        found += [one.span() for one in known.words.finditer(text)]
    return found


def cut_out(text: bytes, spans: Sequence[Span]) -> bytes:
    """The text with a word in place of each span."""
    parts, past = [], 0
    for start, end in spans:
        parts += [text[past:start], _HIDDEN]
        past = end
    return b"".join([*parts, text[past:]])


def _redact(text: str, known: KnownSecrets) -> str:
    content = text.encode("utf-8", "surrogatepass")
    spans = _spans(content, known)
    return cut_out(content, spans).decode("utf-8", "surrogatepass") if spans else text


@cache
def _steering() -> re.Pattern[str]:
    """Control characters but for tab and line feed, those that turn the direction of writing, and invisible ones."""
    invisible = "\u200b\u2060-\u2064\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
    return re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069{invisible}]")


def redact(text: str) -> str:
    """The text for a terminal: without secrets, and a stand-in for each character that would steer it."""
    hidden = hide_secrets(text)
    return hidden if hidden.isprintable() else _steering().sub("\ufffd", hidden.replace("\r\n", "\n"))


def hide_secrets(text: str) -> str:
    """The text without secrets: values of secret variables of this process, and what looks like one.

    Linear in the length of any text.
    """
    return _redact(text, known_secrets())


def has_secret(text: str) -> bool:
    """Whether some part of the text has the form of a token, of a private key or of a password in an address."""
    content = text.encode("utf-8", "surrogatepass")
    return bool(certain_spans(content, content.lower()))


def redact_value(value: object) -> object:
    """A JSON value with every string in it redacted, keys included."""
    return _walk(value, known_secrets())


def _walk(value: object, known: KnownSecrets) -> object:
    if isinstance(value, str):
        return _redact(value, known)
    if isinstance(value, bytes):
        return cut_out(value, _spans(value, known))
    if isinstance(value, dict):
        return {
            _walk(key, known): item if type(item) in _FIGURES else _of_key(key, item, known)
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_walk(item, known) for item in value]
    return value


def _of_key(key: object, item: object, known: KnownSecrets) -> object:
    """A value as it reads beside its key: {"password": "x"} tells as much as password=x."""
    if isinstance(key, str) and isinstance(item, str) and item:
        before = f"{key}=".encode("utf-8", "surrogatepass")
        content = before + item.encode("utf-8", "surrogatepass")
        spans = [(max(start, len(before)) - len(before), end - len(before)) for start, end in _spans(content, known)]
        spans = [(start, end) for start, end in spans if end > start]
        return cut_out(content[len(before) :], spans).decode("utf-8", "surrogatepass") if spans else item
    return _walk(item, known)
