"""Hides secrets in everything that is printed or written, and removes terminal escapes.

A key's pattern is tried where its first letters occur. From there it either fails within a bounded number of characters
or consumes everything that it examined. So the time is linear in the length of any text.
"""

import re
from collections.abc import Sequence

from grpo_recipes.contract.secrets.known_secrets import KnownSecrets, secrets_of_environment

Span = tuple[int, int]

HIDDEN = "<redacted>"
_HIDDEN = HIDDEN.encode()
_FIGURES = (float, int)
# A letter before sk- may end an escape (\n, %20, \x1b[0m), so it need not belong to the same word.
_BEGINS = rb"(?:(?<![A-Za-z0-9_]sk-)|(?<=\\[nrt]sk-)|(?<=%2[0-9a-fA-F]sk-)|(?<=[0-9;\[]msk-))"
_KEYS: tuple[tuple[tuple[bytes, ...], bytes], ...] = (
    ((b"hf_",), rb"(hf_[A-Za-z0-9]{20,}+)"),
    ((b"sk-",), rb"(sk-" + _BEGINS + rb"[A-Za-z0-9_-]{16,}+)"),
    ((b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_"), rb"(gh[pousr]_[A-Za-z0-9]{20,}+)"),
    ((b"github_pat_",), rb"(github_pat_[A-Za-z0-9_]{20,}+)"),
    ((b"glpat-",), rb"(glpat-[A-Za-z0-9_.-]{16,}+)"),
    ((b"xox",), rb"(xox[abeprs]-[A-Za-z0-9-]{10,}+)"),
    ((b"AKIA", b"ASIA"), rb"(A[KS]IA[0-9A-Z]{16}(?![0-9A-Za-z]))"),
    ((b"AIza",), rb"(AIza[A-Za-z0-9_-]{30,}+)"),
    ((b"nvapi-",), rb"(nvapi-[A-Za-z0-9_-]{30,}+)"),
    ((b"wandb_v1_",), rb"(wandb_v1_[A-Za-z0-9_-]{20,}+)"),
    # A key of Weights & Biases, which is 40 hex digits, like a commit.
    ((b"key", b"KEY", b"Key"), rb"(?i:api[ _-]?key)[\"'\]\\ \t=:,]{1,12}([0-9a-fA-F]{40})(?![0-9A-Za-z])"),
    # user:password of a URL, whose slashes JSON may escape.
    ((b"@",), rb":(?<=[A-Za-z0-9+.-]:)(?:\\?/){1,2}([^\s/:@\"]*:[^\s/\"]+)@"),
)
"""Strings of which one is in every match; the pattern, whose group is the secret."""
_LETTERS = re.compile(b"|".join(re.escape(letter) for letters, _ in _KEYS for letter in letters))
"""Most texts have none of these strings: one search, because a training redacts its record at each write."""


def secret_spans(text: bytes) -> list[Span]:
    """The secrets of a text: start and end of each, in order, not overlapping."""
    return _spans(text, secrets_of_environment())


def _spans(text: bytes, known: KnownSecrets) -> list[Span]:
    spans = sorted([*_spans_of_secrets(text, known), *_key_spans(text)])
    apart: list[Span] = []
    for start, end in spans:
        if apart and start <= apart[-1][1]:
            if end > apart[-1][1]:
                apart[-1] = (apart[-1][0], end)
        elif end > start:
            apart.append((start, end))
    return apart


def _spans_of_secrets(text: bytes, known: KnownSecrets) -> list[Span]:
    spans = []
    for value in known.anywhere:
        start = text.find(value)
        while start >= 0:
            spans.append((start, start + len(value)))
            start = text.find(value, start + len(value))
    if known.words is not None:
        spans += [match.span() for match in known.words.finditer(text)]
    return spans


def _key_spans(text: bytes) -> list[Span]:
    """The positions of secrets that are recognizable by their form."""
    keys = _KEYS if _LETTERS.search(text) else ()
    tried = [pattern for letters, pattern in keys if any(letter in text for letter in letters)]
    return [match.span(1) for pattern in tried for match in re.finditer(pattern, text)]


def cut_out(text: bytes, spans: Sequence[Span]) -> bytes:
    """The text with a placeholder for each span."""
    parts, past = [], 0
    for start, end in spans:
        parts += [text[past:start], _HIDDEN]
        past = end
    return b"".join([*parts, text[past:]])


def _redact(text: str, known: KnownSecrets) -> str:
    content = text.encode("utf-8", "surrogatepass")
    spans = _spans(content, known)
    return cut_out(content, spans).decode("utf-8", "surrogatepass") if spans else text


# Control characters except tab and line feed, those that change the writing direction, and invisible ones.
_STEERING = (
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069"
    r"\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)


def redact(text: str) -> str:
    """The text for a terminal: without secrets, and with placeholders for control characters."""
    hidden = hide_secrets(text)
    return hidden if hidden.isprintable() else re.sub(_STEERING, "\ufffd", hidden.replace("\r\n", "\n"))


def hide_secrets(text: str) -> str:
    """The text without secrets: values of this process's secret variables, and well-known keys.

    Linear in the length of any text.
    """
    return _redact(text, secrets_of_environment())


def has_secret(text: str) -> bool:
    """Whether a part of the text looks like a well-known key or a password in a URL."""
    return bool(_key_spans(text.encode("utf-8", "surrogatepass")))


def redact_value(value: object) -> object:
    """A JSON value with every string in it redacted, including keys."""
    return _walk(value, secrets_of_environment())


def _walk(value: object, known: KnownSecrets) -> object:
    if isinstance(value, str):
        return _redact(value, known)
    if isinstance(value, bytes):
        return cut_out(value, _spans(value, known))
    if isinstance(value, dict):
        return {
            _walk(key, known): item if type(item) in _FIGURES else _walk(item, known) for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [_walk(item, known) for item in value]
    return value
