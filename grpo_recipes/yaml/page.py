"""A source text with its lines: makes marks, and user text that is safe to print."""

import os
import re
import stat
from typing import NamedTuple

from grpo_recipes.contract.findings.finding import Finding, Mark
from grpo_recipes.contract.findings.wording import nearest_words
from grpo_recipes.yaml import ids

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


MAX_BYTES = 256 * 1024
LONGEST_PATH = 300  # a fix with half a path is useless

_OTHER_ENCODINGS = {b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}


def read_recipe(path: str) -> str | Finding:
    """The file's text without a byte order mark, or the finding why it cannot be read."""
    content = _content(path)
    return content if isinstance(content, Finding) else _decode(content, path)


def _content(path: str) -> bytes | Finding:
    name = visible_text(path, LONGEST_PATH)
    if os.path.islink(path) and not os.path.realpath(path).endswith((".yaml", ".yml")):
        # Mistakes in a recipe are printed, and a different kind of file may hold secrets.
        return _unreadable(
            f"{name} is a link to a file that is not .yaml",
            f"it leads to {visible_text(os.path.realpath(path))}",
            "name a recipe",
        )
    try:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            return _unreadable(f"{name} is a directory", "a recipe is one file", "name a file in it")
        if not stat.S_ISREG(status.st_mode):
            kind = "a device, a pipe or a socket may never end"
            return _unreadable(f"{name} is not a regular file", kind, "write the recipe to a file")
        if status.st_size > MAX_BYTES:
            return _too_large(name, status.st_size)
        with open(path, "rb") as file:
            # Files of /proc report size 0, and a file can grow after its size was read.
            content = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        return _unreadable(f"{name} does not exist", "no file has this path", _nearest(path))
    except PermissionError:
        return _unreadable(f"{name} may not be read", "the system refuses it", f"chmod u+r {name}")
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        return _unreadable(f"{name} cannot be read", f"the system says: {visible_text(reason)}", "check the path")
    return _too_large(name, len(content)) if len(content) > MAX_BYTES else content


def _decode(content: bytes, path: str) -> str | Finding:
    name = visible_text(path, LONGEST_PATH)
    encoding = _OTHER_ENCODINGS.get(content[:2])
    because, fix = "a recipe is UTF-8 text", "save the file as UTF-8"
    if encoding is not None:
        return Finding(ids.NOT_TEXT, "error", f"{name} is {encoding}", because=(because,), fix=fix)
    if b"\0" in content:
        message = f"{name} is binary: byte {content.index(0)} is NUL"
        return Finding(ids.NOT_TEXT, "error", message, because=(because,), fix="name a recipe file")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        page = page_of(content[: error.start].decode("utf-8", "replace") + "\ufffd", path)
        line = len(page.lines) - 1
        mark = page.mark(line, len(page.lines[line]) - 1, len(page.lines[line]))
        message = f"the byte 0x{content[error.start]:02x} is not UTF-8"
        return Finding(ids.NOT_TEXT, "error", message, "", mark, (because,), fix)


def _unreadable(message: str, because: str, fix: str) -> Finding:
    return Finding(ids.UNREADABLE, "error", message, because=(because,), fix=fix)


def _too_large(name: str, size: int) -> Finding:
    message = f"{name} is larger than {MAX_BYTES // 1024} KiB"
    because = (f"it has {size:,} bytes; a recipe has a few thousand",)
    return Finding(ids.TOO_LARGE, "error", message, because=because, fix="keep data in a data file")


def _nearest(path: str) -> str:
    folder, name = os.path.split(path)
    try:
        is_recipe = name.endswith((".yaml", ".yml"))
        names = [
            entry
            for entry in os.listdir(folder or ".")
            if entry.endswith((".yaml", ".yml"))
            or (not is_recipe and os.path.isfile(f"{folder or '.'}/{entry}/plan.json"))
        ]
    except (OSError, ValueError):
        return "check the path"
    close = nearest_words(name, names[:1000], cutoff=0.6)
    return visible_text(os.path.join(folder, close[0]), LONGEST_PATH) if close else "check the path"
