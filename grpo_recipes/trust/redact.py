"""Secrets hidden from everything that is printed or written, and a terminal from what would steer it."""

import os
import re
from functools import cache

from grpo_recipes.trust.secret_names import names_a_secret

HIDDEN = "<redacted>"
_SHORTEST_SECRET = 8


@cache
def _shapes() -> re.Pattern[str]:
    """Texts that are secrets by their form; what stays visible is in a look-behind or in the groups."""
    return re.compile(
        r"\bhf_[A-Za-z0-9]{20,}"
        r"|\bsk-[A-Za-z0-9_-]{16,}"
        r"|\bgh[pousr]_[A-Za-z0-9]{20,}"
        r"|\bgithub_pat_[A-Za-z0-9_]{20,}"
        r"|\bglpat-[A-Za-z0-9_-]{16,}"
        r"|\bxox[abeprs]-[A-Za-z0-9-]{10,}"
        r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"
        r"|(?P<named>api[_-]?key[\"']?\s*[=:,]?\s*[\"']?)[0-9a-f]{40}\b"
        r"|(?P<bearer>\bbearer\s+)[A-Za-z0-9._~+/=-]{16,}"
        r"|(?P<url>\b[a-z][a-z0-9+.-]*:/{1,2})[^\s/:@]*:[^\s/@]+(?=@)",
        re.IGNORECASE,
    )


def _known() -> tuple[str, ...]:
    """Values of this process's secret variables, the longest first so that none is left in half."""
    values = {
        value
        for name, value in os.environ.items()
        if len(value) >= _SHORTEST_SECRET and names_a_secret(name) and not os.path.exists(value)
    }
    return tuple(sorted(values, key=len, reverse=True))


def _redact(text: str, known: tuple[str, ...]) -> str:
    for value in known:
        text = text.replace(value, HIDDEN)
    return _shapes().sub(lambda found: "".join(part for part in found.groups() if part) + HIDDEN, text)


@cache
def _steering() -> re.Pattern[str]:
    """Control characters but for tab and line feed, and those that turn the direction of writing."""
    return re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def redact(text: str) -> str:
    """The text for a terminal: without secrets, and a stand-in for each character that would steer it."""
    hidden = hide_secrets(text)
    return hidden if hidden.isprintable() else _steering().sub("\ufffd", hidden.replace("\r\n", "\n"))


def hide_secrets(text: str) -> str:
    """The text without secrets: values of secret variables of this process, and what looks like a token."""
    return _redact(text, _known())


def has_secret(text: str) -> bool:
    """Whether some part of the text has the form of a token or of a password in an address."""
    return _shapes().search(text) is not None


def redact_value(value: object) -> object:
    """A JSON value with every string in it redacted, keys included."""
    return _walk(value, _known())


def _walk(value: object, known: tuple[str, ...]) -> object:
    if isinstance(value, str):
        return _redact(value, known)
    if isinstance(value, dict):
        return {_walk(key, known): _walk(item, known) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_walk(item, known) for item in value]
    return value
