"""The secrets that this process knows: values of variables whose names say so, in each form that they are found in."""

import binascii
import json
import os
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

_WORDS = frozenset(
    (
        *("TOKEN", "TOKENS", "KEY", "KEYS", "SECRET", "SECRETS", "PASSWORD", "PASSWORDS", "PASSWD", "PASSPHRASE"),
        *("CREDENTIAL", "CREDENTIALS", "CREDS", "AUTHORIZATION", "BEARER", "COOKIE", "COOKIES", "DSN", "JWT"),
        *("WEBHOOK", "SSHPASS"),
    )
)
_LAST_WORDS = frozenset(("AUTH", "PASS", "PAT", "PW", "PWD"))
_ENDINGS = ("TOKEN", "APIKEY", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE")
"""Ends of a word: HFTOKEN, PGPASSWORD."""
_ADDRESSES = ("_URL", "_URI", "_PROXY")
_COUNTS = ("MAX", "MIN", "NUM", "PER", "COUNT", "LIMIT", "LENGTH", "LEN", "SIZE", "SPECIAL")
_NO_SECRETS = {
    "TOKEN": frozenset(("BOS", "EOS", "PAD", "UNK", "STOP", "LIMIT", "THRESHOLD", "DISABLE")),
    "TOKENS": frozenset(_COUNTS),
    "KEY": frozenset(("PUBLIC",)),
    "KEYS": frozenset((*_COUNTS, "PUBLIC")),
}
"""Words of a text or of a count, and those beside which they are one: EOS_TOKEN, MAX_TOKENS."""
_SHORTEST = 8
"""Letters from which on a value is hidden wherever it stands, also within a word."""
_SHORTEST_WORD = 4
"""Letters from which on it is hidden as a word of its own; shorter ones say nothing and stand everywhere."""
_LONGEST = 1 << 16
"""Bytes of the longest value that is looked for."""


class KnownSecrets(NamedTuple):
    """anywhere: bytes to hide wherever they stand, the longest first; words: what finds the short ones, if any."""

    anywhere: tuple[bytes, ...]
    words: re.Pattern[bytes] | None


@cache
def names_a_secret(name: str) -> bool:
    """Whether a variable's name says that its value is secret: HF_TOKEN and PGPASSWORD do, MAX_TOKENS not."""
    whole = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()
    # HF_TOKEN1 and API_KEY_V2 are numbered ones.
    words = [re.sub(r"(?<=[A-Z])V?\d+$", "", word) for word in re.split(r"[_.-]+", whole)]
    if words[-1] in _LAST_WORDS:
        return words != ["PWD"]
    return any(
        (word in _WORDS or word.endswith(_ENDINGS)) and _NO_SECRETS.get(word, frozenset()).isdisjoint(words)
        for word in words
    )


@cache
def _is_address(name: str) -> bool:
    return name.upper().endswith(_ADDRESSES)


def known_secrets() -> KnownSecrets:
    """The secrets of the environment as it is now."""
    names = list(os.environ)
    secrets = frozenset(os.environ.get(name, "") for name in names if names_a_secret(name))
    return _forms(secrets, frozenset(os.environ.get(name, "") for name in names if _is_address(name)))


@cache
def _forms(secrets: frozenset[str], addresses: frozenset[str]) -> KnownSecrets:
    parts = {part for value in secrets for part in _parts(value.strip()[:_LONGEST])}
    parts |= {part for value in addresses for part in _passwords(value)}
    forms = {form for part in parts if len(part) >= _SHORTEST for form in _written(part)}
    words = sorted(re.escape(_bytes(part)) for part in parts if _is_short(part))
    pattern = re.compile(rb"(?<![A-Za-z0-9_])(?:" + b"|".join(words) + rb")(?![A-Za-z0-9_])") if words else None
    return KnownSecrets(tuple(sorted(forms, key=lambda form: (-len(form), form))), pattern)


def _is_short(part: str) -> bool:
    """Whether a short value has a letter and something else, as words and numbers have not."""
    is_mixed = re.search(r"[0-9\W]", part) and re.search(r"[^\W\d]", part)
    return _SHORTEST_WORD <= len(part) < _SHORTEST and is_mixed is not None


def _parts(value: str) -> Iterator[str]:
    """The value and what of it is secret by itself: its lines, the password of an address, the secrets of JSON."""
    if os.path.isabs(value) and os.path.lexists(value):
        return  # the secret is in that file
    yield value
    lines = value.replace("\\n", "\n").splitlines()
    if len(lines) > 1:
        yield from (line.strip() for line in lines if len(line.strip()) >= _SHORTEST and "-----" not in line)
    yield from _passwords(value)
    if value[:1] in ("{", "["):
        pairs: list[tuple[str, object]] = []
        try:
            json.loads(value, object_pairs_hook=pairs.extend)
        except (ValueError, RecursionError):
            return
        for key, item in pairs:
            if isinstance(item, str) and names_a_secret(key):
                yield from _parts(item)


def _passwords(address: str) -> Iterator[str]:
    """The password of an address, as it is there and as it is."""
    if "://" not in address or "@" not in address:
        return
    from urllib.parse import unquote, urlsplit

    try:
        password = urlsplit(address).password or ""
    except ValueError:
        return
    yield from (password, unquote(password))


def _written(value: str) -> Iterator[bytes]:
    """How a text is found in others: as it is, in JSON or a repr, in these once more, in an address, in base64."""
    from urllib.parse import quote, quote_plus

    coded = _bytes(value)
    once = _quoted(value) | {repr(coded)[2:-1]}
    addresses = {quote(coded, safe=""), quote(coded), quote_plus(coded)}
    addresses |= {re.sub("%[0-9A-F]{2}", lambda found: found[0].lower(), text) for text in addresses}
    html = value.translate({38: "&amp;", 60: "&lt;", 62: "&gt;", 34: "&quot;", 39: "&#x27;"})
    shell = value.replace("'", "'\"'\"'")
    twice = {form for text in once if "\\" in text for form in _quoted(text)}
    for text in once | twice | addresses | {value.replace("\n", "\r\n"), html, shell}:
        yield _bytes(text)
    yield from _base64(coded)
    if not value.isascii() and max(value) <= "\xff":
        yield value.encode("latin-1")  # as programs print it whose locale is not UTF-8


def _quoted(text: str) -> set[str]:
    return {
        text,
        json.dumps(text)[1:-1],
        json.dumps(text, ensure_ascii=False)[1:-1],
        repr(text)[1:-1],
        ascii(text)[1:-1],
    }


def _base64(value: bytes) -> Iterator[bytes]:
    """What the base64 of any text holds where the value is part of it: that depends on how many bytes are before."""
    for before in range(3):
        coded = binascii.b2a_base64(bytes(before) + value, newline=False)
        whole = coded[(0, 2, 3)[before] : (before + len(value)) * 8 // 6]
        if len(whole) >= _SHORTEST:
            yield whole
            yield whole.translate(bytes.maketrans(b"+/", b"-_"))


def _bytes(text: str) -> bytes:
    """UTF-8; what is no text in the environment are the bytes that it was there."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")
