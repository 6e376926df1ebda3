"""What a secret looks like: the forms of tokens and keys, and values that stand beside a word for one.

Each pattern begins with letters that are looked for first, so most are never compiled. From there it either fails
within a bounded number of letters or takes all that it looked at, and that is not looked at again. So the time is
linear in the length of any text.
"""

import binascii
import re
from collections.abc import Iterable
from functools import cache

Span = tuple[int, int]
Row = tuple[tuple[bytes, ...], bytes]
"""A text that is in every match, then texts of which one is; and the pattern, in which a group is the secret."""

# A letter before these may be the end of an escape (\n, %20, \x1b[0m) and need not be of the same word.
_BEGINS = (
    rb"(?:(?<![a-z0-9_]XX)|(?<=\\[abefnrtv]XX)|(?<=%[0-9a-f]{2}XX)|(?<=\\x[0-9a-f]{2}XX)|(?<=\\u[0-9a-f]{4}XX)"
    rb"|(?<=[0-9;\[]mXX))"
)
_SLASH = rb"(?:\\?/|%2f)"
_QUOTES = rb"[\"'\]\\]{0,4}"

# In lower case.
_TOKENS: tuple[Row, ...] = (
    ((b"hf_",), rb"(hf_[a-z0-9]{20,}+)"),
    ((b"api_org_",), rb"(api_org_[a-z0-9]{20,}+)"),
    ((b"gh", b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_"), rb"(gh[pousr]_[a-z0-9]{20,}+)"),
    ((b"github_pat_",), rb"(github_pat_[a-z0-9_]{20,}+)"),
    ((b"gl", b"glpat-", b"gldt-", b"glrt-", b"glptt-"), rb"(gl(?:pat|dt|rt|ptt)-[a-z0-9_.-]{16,}+)"),
    ((b"xox",), rb"(xox[abeprs]-[a-z0-9-]{10,}+)"),
    ((b"xapp-",), rb"(xapp-[a-z0-9-]{16,}+)"),
    ((b"k_", b"k_live_", b"k_test_"), rb"(k_(?:live|test)_[a-z0-9]{16,}+)"),
    ((b"npm_",), rb"(npm_[a-z0-9]{30,}+)"),
    ((b"pypi-ag",), rb"(pypi-ag[a-z0-9_-]{30,}+)"),
    ((b"_v1_",), rb"((?:do[opr]|wandb)_v1_[a-z0-9_-]{20,}+)"),
    ((b"dckr_pat_",), rb"(dckr_pat_[a-z0-9_-]{20,}+)"),
    ((b"whsec_",), rb"(whsec_[a-z0-9+/=]{20,}+)"),
    ((b"nvapi-",), rb"(nvapi-[a-z0-9_-]{30,}+)"),
    ((b"gocspx-",), rb"(gocspx-[a-z0-9_-]{20,}+)"),
    ((b"gsk_",), rb"(gsk_[a-z0-9]{40,}+)"),
    ((b"hvs.",), rb"(hvs\.[a-z0-9_-]{24,}+)"),
    ((b"ya29.",), rb"(ya29\.[a-z0-9_-]{20,}+)"),
    ((b"age-secret-key-1",), rb"(age-secret-key-1[a-z0-9]{40,}+)"),
    ((b"hooks.slack.com",), rb"hooks\.slack\.com%b[a-z]{6,12}%b([a-z0-9_/\\%%-]{8,}+)" % (_SLASH, _SLASH)),
    ((b"webhooks",), rb"webhooks%b([0-9]{8,24}%b[a-z0-9_-]{20,}+)" % (_SLASH, _SLASH)),
    ((b"key=", b"accountkey=", b"sharedaccesskey="), rb"(?:account|sharedaccess)key=([a-z0-9+/=%]{16,}+)"),
    ((b"sk-",), rb"(sk-" + _BEGINS.replace(b"XX", b"sk-") + rb"[a-z0-9_-]{16,}+)"),
    ((b"bearer",), rb"bearer(?:[ \t]|%20|\\[nt]){1,4}([a-z0-9._~+/=-]{16,}+)"),
    ((b"key",), rb"api[ _-]?key%b[ \t]{0,4}[=:,]?[ \t]{0,4}%b([0-9a-f]{40})(?![0-9a-z])" % (_QUOTES, _QUOTES)),
    ((b"@",), rb":(?<=[a-z0-9+.-]:)(?:\\?/){1,2}([^\s/:@]*:[^\s/]+)@"),
)
# Those whose capitals tell them from words.
_CASED_TOKENS: tuple[Row, ...] = (
    ((b"AIza",), rb"(AIza[A-Za-z0-9_-]{30,}+)"),
    ((b"SG.",), rb"(SG\.[A-Za-z0-9_-]{16,}+\.[A-Za-z0-9_-]{16,}+)"),
    ((b":AA",), rb":AA(?<=[0-9]{8}:AA)([A-Za-z0-9_-]{30,}+)"),
    (
        (b"IA", b"AKIA", b"ASIA"),
        rb"(A[KS]IA[0-9A-Z]{16}(?![0-9A-Za-z])(?:[\s\"',:;=|\\]{1,8}(?:[a-zA-Z_-]{1,32}[\s\"':=\\]{1,8})?"
        rb"[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+]))?)",
    ),
    (  # A JSON web token, which is the base64 of {"
        (b"eyJ",),
        rb"(eyJ"
        + _BEGINS.replace(b"XX", b"eyJ").replace(b"a-z0-9_", b"A-Za-z0-9+/_-", 1)
        + rb"[A-Za-z0-9_-]{17,}+(?:\.[A-Za-z0-9_-]++){0,4})",
    ),
)

_ASSIGNS = rb"[ \t]{0,4}(?:=>|[=:]{1,2})[ \t]{0,4}[bru]?"
_ASSIGNED = _QUOTES + _ASSIGNS
# Placeholders, variables and what begins a structure.
_NO_VALUE = (
    rb"(?!(?:none|null|true|false|str|string|required|optional|prompt|empty|changeme|unset|missing)(?![a-z0-9_])"
    rb"|[<{\[(*$]|%\(|os\.|self\.)"
)
_IN_QUOTES = rb"(?:\"%b((?:[^\"\\\r\n]++|\\.)++)|'%b((?:[^'\\\r\n]++|\\.)++)|\\{1,4}[\"']%b([^\"'\\\r\n]++))" % (
    (_NO_VALUE,) * 3
)
_PLAIN = _NO_VALUE + rb"([^\s\"'\\]*[^\s\"'\\,;)}\]>])"
_VALUE = rb"(?:%b(?:%b|%b)|%b{1,4}%b%b)" % (_ASSIGNS, _IN_QUOTES, _PLAIN, rb"[\"'\]\\]", _ASSIGNS, _IN_QUOTES)
_WORD_AFTER = rb"[ \t]{1,4}([^\s\"'-][^\s\"']*+)"

# A word for a password with its value, whatever that is; in lower case.
_PASSWORDS: tuple[Row, ...] = (
    ((b"-pass",), rb"-pass(?:word|wd|phrase)" + _WORD_AFTER),
    ((b"pass",), rb"pass(?:word|wd|phrase|(?<=sshpass))" + _VALUE),
    ((b"_pwd",), rb"_pwd(?<=[a-z]_pwd)" + _VALUE),
    ((b"client_secret",), rb"client_secret" + _VALUE),
    (
        (b"authorization",),
        rb"authorization[\"'\]\\]{0,4}[ \t]{0,4}[:=][ \t]{0,4}[\"'\\]{0,4}"
        rb"(?:(?:basic|bearer|token|digest|negotiate|apikey)[ \t]{1,4})?([^\s\"'\\,;<>]++)",
    ),
    (
        (b"cookie",),
        rb"cookie[\"'\]\\]{0,4}[ \t]{0,4}:[ \t]{0,4}[\"'\\]{0,4}([a-z0-9_.-]{1,64}=[^\r\n\"'\\]++)",
    ),
)
_RANDOM = rb"[\"'\\]{0,4}([a-z0-9_+/=.~%:-]{16,}+)"
_AFTER_TOKEN = (b"token", b"token=", b"token:", b"token'", b'token"', b"token\\", b"token]", b"token ", b"token\t")
_KEYS = (b"access", b"account", b"private", b"signing", b"encryption", b"master", b"license")
_OF_A_KEY = b"|".join(rb"(?<=%b%bkey)" % (word, between) for word in _KEYS for between in (b"", b"_", b"-"))
# A word for a token or a key with its value, where that looks random; in lower case.
_JUDGED: tuple[Row, ...] = (
    (_AFTER_TOKEN, rb"token(?:%b|(?<=-token)[ \t]{1,4})%b" % (_ASSIGNED, _RANDOM)),
    (
        (b"secret",),
        rb"secret(?:[_-]?(?:access)?[_-]?key)?(?:%b|(?<=-secret)[ \t]{1,4})%b" % (_ASSIGNED, _RANDOM),
    ),
    ((b"api", b"apikey", b"api_key", b"api-key"), rb"api[_-]?key(?:%b|(?<=-key)[ \t]{1,4})%b" % (_ASSIGNED, _RANDOM)),
    ((b"key", *_KEYS), rb"key(?:%b)%b%b" % (_OF_A_KEY, _ASSIGNED, _RANDOM)),
    ((b"credential",), rb"credentials?%b%b" % (_ASSIGNED, _RANDOM)),
    ((b"passw", b"password ", b"passwd "), rb"passw(?:or)?d[ \t]{1,4}([a-z0-9_+/=-]{16,}+)"),
    ((b"sig=",), rb"sig=(?<=[?&]sig=)([a-z0-9%+/=_-]{20,}+)"),
    ((b"@",), rb":(?<=[a-z]:)(?:\\?/){2}([a-z0-9_.-]{20,}+)@"),
)
_BASIC: Row = ((b"basic", b"basic ", b"basic\t"), rb"basic[ \t]{1,4}([a-z0-9+/_=-]{8,}+)")
_FILE_ENDINGS = (b".json", b".jsonl", b".yaml", b".yml", b".py", b".txt", b".csv", b".parquet", b".safetensors", b".pt")
_LOOKED_AT = 512
_LONG = 1 << 16
_BLOCK = rb"-----BEGIN [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----"
_BLOCK_END = b"-----END "
_BLOCK_LINES = rb"(?:(?:\s|\\+[nrt]){1,16}[A-Za-z0-9+/=]{1,128}(?![A-Za-z0-9.,;:_'-]))*+"
LONGEST_KEY_BLOCK = 1 << 16
"""Bytes of a private key, after which its end is not looked for."""


def certain_spans(text: bytes, lower: bytes) -> list[Span]:
    """Where a text has what is a secret by its form alone. lower: the same text in lower case."""
    return [*_found(_TOKENS, lower), *_found(_CASED_TOKENS, text), *_key_blocks(text)]


def beside_spans(text: bytes, lower: bytes) -> list[Span]:
    """Where a value stands beside a word for a secret: every value of a password, of a token what looks random."""
    found = _found(_PASSWORDS, lower)
    found += [(start, end) for start, end in _found(_JUDGED, lower) if _looks_random(lower[start:end])]
    logins = _found((_BASIC,), lower)
    return found + [(start, end) for start, end in logins if _is_login(text[start : min(end, start + _LOOKED_AT)])]


def _found(rows: Iterable[Row], text: bytes) -> list[Span]:
    found: list[Span] = []
    is_long = len(text) > _LONG
    for within, pattern in rows:
        if within[0] in text and (len(within) == 1 or is_long or any(one in text for one in within[1:])):
            found += [one.span(one.lastindex or 0) for one in _compiled(pattern).finditer(text)]
    return found


@cache
def _compiled(pattern: bytes) -> re.Pattern[bytes]:
    return re.compile(pattern)


def _looks_random(value: bytes) -> bool:
    """Whether a value may be a token: digits among its letters, and mixed as names and paths are not."""
    value = value[:_LOOKED_AT]
    digits = len(value) - len(value.translate(None, b"0123456789"))
    least = 2 if len(value) < 32 else 1
    return (
        least <= digits < len(value)
        and len(set(value)) >= 8
        and value[0] not in b"/."
        and not value.endswith(_FILE_ENDINGS)
    )


def _is_login(value: bytes) -> bool:
    """Whether the value is the base64 of user:password."""
    value = value.translate(bytes.maketrans(b"-_", b"+/"))
    try:
        said = binascii.a2b_base64(value + b"="[: -len(value) % 4] * 2)
    except binascii.Error:
        return False
    return b":" in said and said.isascii()


def _key_blocks(text: bytes) -> list[Span]:
    """Private keys in their own lines, or in one line with escapes; one without an end as far as it looks like one."""
    if b"PRIVATE KEY" not in text:
        return []
    found: list[Span] = []
    end = past = 0
    for begin in _compiled(_BLOCK).finditer(text):
        start = begin.end()
        if start < past:
            continue
        if 0 <= end < start:
            end = text.find(_BLOCK_END, start)
        has_end = start <= end <= start + LONGEST_KEY_BLOCK
        lines = None if has_end else _compiled(_BLOCK_LINES).match(text, start)
        past = end if lines is None else lines.end()
        found.append((start, past))
    return found


def open_key_block(text: bytes) -> int | None:
    """Where a private key begins that does not end in this text; None where there is none."""
    begin = text.rfind(b"-----BEGIN ")
    if begin < 0 or text.find(_BLOCK_END, begin) >= 0 or _compiled(_BLOCK).match(text, begin) is None:
        return None
    return begin
