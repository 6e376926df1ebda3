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
_LAST_WORDS = ("AUTH", "PASS", "PAT", "PW", "PWD")
_ENDINGS = ("TOKEN", "APIKEY", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE")
"""Ends of a word: HFTOKEN, PGPASSWORD."""
_COUNTS = frozenset(("MAX", "MIN", "NUM", "PER", "COUNT", "LIMIT", "LENGTH", "LEN", "SIZE", "SPECIAL", "PUBLIC"))
_TEXTS = frozenset(("BOS", "EOS", "PAD", "UNK", "STOP", "LIMIT", "THRESHOLD", "DISABLE"))
_BESIDE = {"TOKEN": _TEXTS, "TOKENS": _COUNTS, "KEY": frozenset(("PUBLIC",)), "KEYS": _COUNTS}
"""Words beside which one is of a text or a count: EOS_TOKEN, MAX_TOKENS."""
_ADDRESSES = ("_URL", "_URI", "_PROXY")
_LONGEST_NAME = 200
SHORTEST = 8
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
    whole = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name[-_LONGEST_NAME:]).upper()
    # HF_TOKEN1 and API_KEY_V2 are numbered ones.
    words = [re.sub(r"(?<=[A-Z])V?\d+$", "", word) for word in re.split(r"[_.-]+", whole)]
    if words[-1] in _LAST_WORDS:
        return words != ["PWD"]
    return any(
        (word in _WORDS or word.endswith(_ENDINGS)) and _BESIDE.get(word, frozenset()).isdisjoint(words)
        for word in words
    )


def known_secrets() -> KnownSecrets:
    """The secrets of the environment as it is now."""
    given = {name: os.environ.get(name, "") for name in list(os.environ)}  # another thread may remove one
    secrets = frozenset(value for name, value in given.items() if names_a_secret(name))
    return _forms(secrets, frozenset(value for name, value in given.items() if name.upper().endswith(_ADDRESSES)))


@cache
def _forms(secrets: frozenset[str], addresses: frozenset[str]) -> KnownSecrets:
    parts = {part for value in secrets for part in _parts(value.strip()[:_LONGEST])}
    parts |= {part for value in addresses for part in _passwords(value)}
    forms = {form for part in parts if len(part) >= SHORTEST for form in _written(part)}
    words = sorted(re.escape(_bytes(part)) for part in parts if _is_short(part))
    pattern = re.compile(rb"(?<![A-Za-z0-9_])(?:" + b"|".join(words) + rb")(?![A-Za-z0-9_])") if words else None
    return KnownSecrets(tuple(sorted(forms, key=lambda form: (-len(form), form))), pattern)


def _is_short(part: str) -> bool:
    """Whether a short value has a letter and something else, as words and numbers have not."""
    is_mixed = re.search(r"[0-9\W]", part) and re.search(r"[^\W\d]", part)
    return _SHORTEST_WORD <= len(part) < SHORTEST and is_mixed is not None


def _parts(value: str) -> Iterator[str]:
    """The value and what of it is secret by itself: its lines, and the password of an address."""
    if os.path.isabs(value) and os.path.lexists(value):
        return  # the secret is in that file
    yield value
    lines = value.replace("\\n", "\n").splitlines()
    if len(lines) > 1:
        yield from (line.strip() for line in lines if len(line.strip()) >= SHORTEST and "-----" not in line)
    yield from _passwords(value)


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
    """How a text is found in others: as it is, in JSON or a repr, in an address, in base64."""
    from urllib.parse import quote

    coded = _bytes(value)
    texts = {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]}
    texts |= {ascii(value)[1:-1], quote(coded, safe=""), quote(coded), value.replace("'", "'\"'\"'")}
    for text in texts:
        yield _bytes(text)
    yield from _base64(coded)


def _base64(value: bytes) -> Iterator[bytes]:
    """What the base64 of any text holds where the value is part of it: that depends on how many bytes are before."""
    for before in range(3):
        coded = binascii.b2a_base64(bytes(before) + value, newline=False)
        whole = coded[(0, 2, 3)[before] : (before + len(value)) * 8 // 6]
        if len(whole) >= SHORTEST:
            yield whole
            yield whole.translate(bytes.maketrans(b"+/", b"-_"))


def _bytes(text: str) -> bytes:
    """UTF-8; what is no text in the environment are the bytes that it was there."""
    return text.encode("utf-8", "surrogateescape")
