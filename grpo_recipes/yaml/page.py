"""A source text with its lines: makes marks, and user text that is safe to print."""

import re
from typing import NamedTuple

from grpo_recipes.contract.findings.finding import Mark

_FORBIDDEN_ASCII = r"[^\t\n\r\x20-\x7e]"
_FORBIDDEN = r"[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"

_UNSAFE = r"[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
_LINE_BREAK = re.compile(r"\r\n|\r|\n")


def find_forbidden(text: str) -> re.Match[str] | None:
    """The first character that YAML refuses, or that is a line break in YAML 1.1 but not in 1.2.

    The wide range takes milliseconds to compile, so a plain ASCII text is searched with the narrow one.
    """
    return re.search(_FORBIDDEN_ASCII if text.isascii() else _FORBIDDEN, text)


class Page(NamedTuple):
    """A text to parse. before: the text to its left on the line, for the value of an override."""

    file: str
    text: str
    lines: list[str]
    before: str = ""

    def mark(self, line: int, column: int, end: int) -> Mark:
        """The mark of a place, counted from 0 as the parser does; at least one column wide."""
        if line >= len(self.lines):
            line, column, end = len(self.lines) - 1, len(self.lines[-1]), 0
        text = self.lines[line]
        start = min(column, len(text))
        stop = max(min(end, len(text)), start + 1)
        shift = len(self.before) + 1
        return Mark(self.file, line + 1, start + shift, stop + shift, self.before + text)

    def mark_at(self, offset: int) -> Mark:
        """The mark of one character of the text."""
        before = page_of(self.text[:offset] + ".", "").lines
        return self.mark(len(before) - 1, len(before[-1]) - 1, len(before[-1]))


def page_of(text: str, file: str) -> Page:
    """The page of a whole file, with lines split where editors do: LF, CRLF or CR."""
    lines = _LINE_BREAK.split(text)
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    return Page(file, text, [printable(line) for line in lines])


def printable(line: str) -> str:
    """The line with a one-column placeholder for each terminal control character; tabs stay.

    Only lines that are not printable need the pattern, which takes a millisecond to compile.
    """
    if line.isprintable():
        return line
    return re.sub(_UNSAFE, lambda match: chr(0x2400 + ord(match[0])) if ord(match[0]) < 0x20 else "\ufffd", line)


def visible_text(text: str, limit: int = 60) -> str:
    """User text for a message: cut at `limit` characters, everything unprintable escaped."""
    escaped = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text[:limit])
    if len(text) > limit or len(escaped) > 2 * limit:
        return escaped[: 2 * limit] + "..."
    return escaped


def single_quoted(text: str) -> str:
    """The text as a YAML scalar in single quotes."""
    return "'" + text.replace("'", "''") + "'"
