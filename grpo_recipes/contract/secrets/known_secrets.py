"""Collects the secrets of this process: values of secret-named variables, in each encoding they may appear in."""

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
"""Suffixes of a word: HFTOKEN, PGPASSWORD."""
_COUNTS = frozenset(("MAX", "MIN", "NUM", "PER", "COUNT", "LIMIT", "LENGTH", "LEN", "SIZE", "SPECIAL", "PUBLIC"))
_TEXTS = frozenset(("BOS", "EOS", "PAD", "UNK", "STOP", "LIMIT", "THRESHOLD", "DISABLE"))
_BESIDE = {"TOKEN": _TEXTS, "TOKENS": _COUNTS, "KEY": frozenset(("PUBLIC",)), "KEYS": _COUNTS}
"""Neighbouring words that mark a text or a count: EOS_TOKEN, MAX_TOKENS."""
_ADDRESSES = ("_URL", "_URI", "_PROXY")
_LONGEST_NAME = 200
SHORTEST = 8
"""Values of at least this many characters are hidden anywhere, even within a word."""
_SHORTEST_WORD = 4
"""Values of at least this many characters are hidden as whole words; shorter ones are too common."""
_LONGEST = 1 << 16
"""Bytes of the longest value that is searched for."""


class KnownSecrets(NamedTuple):
    """The secrets to hide. anywhere: bytes to hide wherever they occur, longest first; words: a pattern for the short
    ones, if any.
    """

    anywhere: tuple[bytes, ...]
    words: re.Pattern[bytes] | None


@cache
def names_a_secret(name: str) -> bool:
    """Whether a variable's name suggests a secret value: HF_TOKEN and PGPASSWORD do, MAX_TOKENS does not."""
    whole = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name[-_LONGEST_NAME:]).upper()
    # numbered names, such as HF_TOKEN1 and API_KEY_V2
    words = [re.sub(r"(?<=[A-Z])V?\d+$", "", word) for word in re.split(r"[_.-]+", whole)]
    if words[-1] in _LAST_WORDS:
        return words != ["PWD"]
    return any(
        (word in _WORDS or word.endswith(_ENDINGS)) and _BESIDE.get(word, frozenset()).isdisjoint(words)
        for word in words
    )


def secrets_of_environment() -> KnownSecrets:
    """The secrets in the current environment."""
    given = {name: os.environ.get(name, "") for name in list(os.environ)}  # another thread may remove one
    secrets = frozenset(value for name, value in given.items() if names_a_secret(name))
    return _forms(secrets, frozenset(value for name, value in given.items() if name.upper().endswith(_ADDRESSES)))


@cache
def _forms(secrets: frozenset[str], addresses: frozenset[str]) -> KnownSecrets:
    parts = {part for value in secrets for part in _parts(value.strip()[:_LONGEST])}
    parts |= {part for value in addresses for part in _passwords(value)}
    forms = {form for part in parts if len(part) >= SHORTEST for form in _spellings(part)}
    words = sorted(re.escape(_bytes(part)) for part in parts if _is_short(part))
    pattern = re.compile(rb"(?<![A-Za-z0-9_])(?:" + b"|".join(words) + rb")(?![A-Za-z0-9_])") if words else None
    return KnownSecrets(tuple(sorted(forms, key=lambda form: (-len(form), form))), pattern)


def _is_short(part: str) -> bool:
    """Whether a short value mixes letters with other characters, unlike words and numbers."""
    is_mixed = re.search(r"[0-9\W]", part) and re.search(r"[^\W\d]", part)
    return _SHORTEST_WORD <= len(part) < SHORTEST and is_mixed is not None


def _parts(value: str) -> Iterator[str]:
    """The value, and the parts of it that are secret by themselves: its lines, and the password of a URL."""
    if os.path.isabs(value) and os.path.lexists(value):
        return  # the secret is in that file
    yield value
    lines = value.replace("\\n", "\n").splitlines()
    if len(lines) > 1:
        yield from (line.strip() for line in lines if len(line.strip()) >= SHORTEST and "-----" not in line)
    yield from _passwords(value)


def _passwords(address: str) -> Iterator[str]:
    """The password of a URL, raw and percent-decoded."""
    if "://" not in address or "@" not in address:
        return
    from urllib.parse import unquote, urlsplit

    try:
        password = urlsplit(address).password or ""
    except ValueError:
        return
    yield from (password, unquote(password))


def _spellings(value: str) -> Iterator[bytes]:
    """The forms in which a text may appear in others: raw, in JSON or a repr, in a URL, in base64."""
    from urllib.parse import quote

    coded = _bytes(value)
    texts = {value, json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1], repr(value)[1:-1]}
    texts |= {ascii(value)[1:-1], quote(coded, safe=""), quote(coded), value.replace("'", "'\"'\"'")}
    for text in texts:
        yield _bytes(text)
    yield from _base64(coded)


def _base64(value: bytes) -> Iterator[bytes]:
    """The base64 forms of a value inside any text, which depend on the number of preceding bytes."""
    for before in range(3):
        coded = binascii.b2a_base64(bytes(before) + value, newline=False)
        whole = coded[(0, 2, 3)[before] : (before + len(value)) * 8 // 6]
        if len(whole) >= SHORTEST:
            yield whole
            yield whole.translate(bytes.maketrans(b"+/", b"-_"))


def _bytes(text: str) -> bytes:
    """The text as UTF-8; undecodable parts are the original bytes of the environment."""
    return text.encode("utf-8", "surrogateescape")
