"""The usual slips on the lines of a text that is not YAML, for the parser stops at the first.

A slip is reported where a key is expected alone: not in a comment, a block scalar, a quoted text, a flow collection
or a plain text of several lines.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from grpo_recipes.contract.findings.finding import Finding, Mark
from grpo_recipes.yaml import ids
from grpo_recipes.yaml.page import Page, shown

MISSING_SPACE = ("a space is missing after the colon", "without it YAML reads the line as one text")
TAB = ("a tab stands where YAML takes spaces only", "YAML indents with spaces", "replace the tab with spaces")
MOST = 20

_NO_SPACE = r"\s*(?:- )?([A-Za-z_][\w.-]*):([^\s:/][^\s:]*)\s*"
_KEY = r"(?:- +)*[^\s\"'#\[{&*!|>%@`-][^\"'#]*?:(?:\s+(?P<value>.*))?"
_BLOCK = r"(?:.*(?::|-)\s+)?[|>][-+0-9]*$"
_QUOTED = r"""(?<![^\s:,\[{])(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*')"""
_COMMENT = r"(?:^|\s)#.*"
_OPEN_QUOTE = r"""(?:^|[:,\[{-])\s*(["'])"""


def missing_space(text: str) -> str | None:
    """`beta: 0.04` for a line `beta:0.04`, else None."""
    found = re.fullmatch(_NO_SPACE, text)
    return f"{shown(found[1], 40)}: {shown(found[2], 40)}" if found else None


class _Line(NamedTuple):
    """A line outside of texts. column: of its key, in an item behind the dash; is_text: None where it may be one."""

    number: int
    line: str
    text: str
    column: int
    is_text: bool | None


def slips(page: Page) -> list[Finding]:
    """A finding for each of the first lines with a slip; page: of a text that the parser refuses."""
    found: list[Finding] = []
    lines = list(_outside_of_texts(page))
    for line, following in zip(lines, [*lines[1:], None], strict=True):
        start = len(line.line) - len(line.line.lstrip())
        tab, written = line.line.find("\t", 0, start), missing_space(line.text)
        if tab >= 0 and (written or line.text.startswith("- ") or re.fullmatch(_KEY, line.text)):
            found.append(_finding(page.mark(line.number, tab, tab + 1), *TAB))
        elif written and (line.is_text is False or (line.is_text is None and _is_first_key(line, following))):
            found.append(_finding(page.mark(line.number, start, start + len(line.text)), *MISSING_SPACE, written))
    return found[:MOST]


def _finding(mark: Mark, message: str, because: str, fix: str) -> Finding:
    return Finding(ids.SYNTAX, "error", message, "", mark, (because,), fix)


def _is_first_key(line: _Line, following: _Line | None) -> bool:
    """Whether the next line is a key in the same column, so that this one is no text."""
    return following is not None and following.column == line.column and bool(re.fullmatch(_KEY, following.text))


def _outside_of_texts(page: Page) -> Iterator[_Line]:
    block, closing, depth = None, "", 0
    above, is_open = -1, True  # the column of the last key, and whether its value starts below it
    for number, line in enumerate(page.lines):
        expanded, text = line.expandtabs(8), line.strip()
        column = len(expanded) - len(expanded.lstrip())
        if not text or (block is not None and column > block):
            continue
        block, is_inside = None, bool(closing) or depth > 0
        if closing and closing not in text:
            continue
        text = re.sub(_COMMENT, "", re.sub(_QUOTED, "''", text.partition(closing)[2] if closing else text)).rstrip()
        opened = re.search(_OPEN_QUOTE, text.replace("''", ""))
        closing = opened[1] if opened else ""
        key = None if is_inside else re.fullmatch(_KEY, text)
        value = (key["value"] or "") if key else text
        if depth or value.lstrip("- ").startswith(("[", "{")):
            depth = max(0, depth + sum(map(value.count, "[{")) - sum(map(value.count, "]}")))
        if is_inside or not text:
            continue
        is_item, is_slip = text.startswith("- "), missing_space(text) is not None
        inner = column + 2 if is_item and (key or is_slip) else column
        is_text = column > above and (not is_open or (None if above > 0 else False))
        yield _Line(number, line, text, inner, None if is_item and not is_text else is_text)
        if is_text is not True:
            above, is_open = inner, key is not None and not value
            block = inner if re.fullmatch(_BLOCK, text) else None
