"""The secrets that this process knows: values of variables whose names say so, in each form that they are found in."""

import binascii
import json
import os
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from grpo_recipes.contract.secrets.secret_names import names_a_secret

_SHORTEST = 8
"""Letters from which on a value is hidden wherever it stands, also within a word."""
_SHORTEST_WORD = 4
"""Letters from which on it is hidden as a word of its own; shorter ones say nothing and stand everywhere."""
LONGEST = 1 << 16
"""Bytes of the longest value that is looked for."""
_DEEPEST = 4


class KnownSecrets(NamedTuple):
    """anywhere: bytes to hide wherever they stand, the longest first; words: what finds the short ones, if any."""

    anywhere: tuple[bytes, ...]
    words: re.Pattern[bytes] | None


def known_secrets() -> KnownSecrets:
    """The secrets of the environment as it is now."""
    values = (os.environ.get(name, "") for name in os.environ if _is_secret(name))  # few are read of all
    return _forms(frozenset(value for value in values if _says_it(value)))


@cache
def _is_secret(name: str) -> bool:
    return names_a_secret(name)


def _says_it(value: str) -> bool:
    """Whether the value is the secret and no whole path of a file that holds it."""
    return len(value) >= _SHORTEST_WORD and not (os.path.isabs(value) and os.path.lexists(value))


@cache
def _forms(values: frozenset[str]) -> KnownSecrets:
    parts = {part for value in values for part in _parts(value, 0)}
    forms = {form for part in parts if len(part) >= _SHORTEST for form in _written(part)}
    words = sorted(re.escape(_bytes(part)) for part in parts if len(part) < _SHORTEST)
    pattern = re.compile(rb"(?<![A-Za-z0-9_])(?:" + b"|".join(words) + rb")(?![A-Za-z0-9_])") if words else None
    return KnownSecrets(tuple(sorted(filter(None, forms), key=lambda form: (-len(form), form))), pattern)


def _parts(value: str, depth: int) -> Iterator[str]:
    """The value and what of it is secret by itself: its lines, the password of an address, the texts of JSON."""
    text = value.strip()
    if len(text) < _SHORTEST:
        if len(text) >= _SHORTEST_WORD and re.search(r"[0-9\W]", text) and re.search(r"[^\W\d]", text):
            yield text
        return
    yield text[:LONGEST]
    if depth == _DEEPEST:
        return
    lines = text.splitlines()
    if len(lines) > 1:
        yield from (line.strip() for line in lines if len(line.strip()) >= _SHORTEST and "-----" not in line)
    elif "\\n" in text:  # a key whose lines are written with escapes
        yield from _parts(text.replace("\\r", "").replace("\\n", "\n"), depth + 1)
    if "://" in text and len(lines) == 1:
        yield from _password(text)
    if text[0] in "{[":
        try:
            yield from _leaves(json.loads(text), depth)
        except (ValueError, RecursionError):
            return


def _password(address: str) -> Iterator[str]:
    from urllib.parse import unquote, urlsplit

    try:
        password = urlsplit(address).password
    except ValueError:
        return
    if password is not None:
        yield from (one for one in (password, unquote(password)) if len(one) >= _SHORTEST)


def _leaves(value: object, depth: int) -> Iterator[str]:
    """The secret texts of a JSON value: what a key says to be one, and what is long and no words."""
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(item, str):
                yield from _leaves(item, depth)
            elif names_a_secret(str(key)) or str(key).lower() in ("auth", "identitytoken") or len(item) >= 32:
                yield from _parts(item, depth + 1)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(item, depth)


def _written(value: str) -> Iterator[bytes]:
    """How a text is found in others: as it is, in JSON or a repr, in these once more, in an address, in base64."""
    from urllib.parse import quote, quote_plus

    once = {value, _json(value), _json(value, ascii_only=False), _repr(value), ascii(value)[1:-1]}
    once.add(repr(_bytes(value))[2:-1])
    twice = {form for one in once if "\\" in one for form in (_json(one), _repr(one))}
    lines = {value.replace("\n", "\r\n")} if "\n" in value else set()
    coded = _bytes(value)
    quoted = {quote(coded, safe=""), quote(coded), quote_plus(coded)}
    low = {re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), one) for one in quoted}
    for text in once | twice | lines | quoted | low | {_html(value), value.replace("'", "'\"'\"'")}:
        yield _bytes(text)
    yield from _base64(coded)
    if not value.isascii() and max(value) <= "\xff":
        yield value.encode("latin-1")  # as programs print it whose locale is not UTF-8


def _base64(value: bytes) -> Iterator[bytes]:
    """What the base64 of any text holds where the value is part of it: that depends on how many bytes are before."""
    for before in range(3):
        coded = binascii.b2a_base64(bytes(before) + value, newline=False)
        whole = coded[(0, 2, 3)[before] : (before + len(value)) * 8 // 6]
        if len(whole) >= _SHORTEST:
            yield whole
            yield whole.translate(bytes.maketrans(b"+/", b"-_"))


def _html(text: str) -> str:
    return text.translate({38: "&amp;", 60: "&lt;", 62: "&gt;", 34: "&quot;", 39: "&#x27;"})


def _json(text: str, ascii_only: bool = True) -> str:
    return json.dumps(text, ensure_ascii=ascii_only)[1:-1]


def _repr(text: str) -> str:
    return repr(text)[1:-1]


def _bytes(text: str) -> bytes:
    """UTF-8; what is no text in the environment are the bytes that it was there."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
