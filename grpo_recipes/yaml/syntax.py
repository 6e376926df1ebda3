"""Explains the syntax errors that people make daily, and repeats PyYAML's own sentence for the others.

Recognized by the messages of PyYAML 6 and libyaml 0.2.5.
"""

import re

from yaml import MarkedYAMLError

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.yaml import ids
from grpo_recipes.yaml.page import Page, single_quoted, visible_text
from grpo_recipes.yaml.refusals import MAX_FIX, UNQUOTED, double_quoted

_NO_SPACE = r"\s*(?:- )?([A-Za-z_][\w.-]*):([^\s:/][^\s:]*)\s*"
_UNQUOTED_TEMPLATE = r"(?:^|[:\[,-]\s+)(\{\{)"
_TAB = ("a tab where YAML only takes spaces", "YAML indents with spaces", "replace the tab with spaces")
_OPEN_QUOTE = (
    "the quote that opens here is not closed",
    "the text, or a line --- or ..., ends before the closing quote",
    "close the quote; inside single quotes write '' for one quote",
)
_SECOND_COLON = (
    "a second colon with a space after it is on this line",
    "one line holds one key; a colon and a space inside a text start another",
    "write the text after the first colon in quotes",
)
_INDENTATION = (
    "the line does not fit the ones above",
    "the keys of one mapping start in the same column, below it deeper",
    "start the line in the column of the keys around it",
)

Words = tuple[str, str, str]
Place = tuple[int, int]


def syntax_finding(error: MarkedYAMLError, page: Page) -> Finding:
    """The finding for a text that is not YAML."""
    mark, context = error.problem_mark or error.context_mark, error.context_mark
    last = len(page.lines) - 1
    here = (mark.line, mark.column) if mark and mark.line <= last else (last, len(page.lines[last]) if mark else 0)
    why = " ".join(filter(None, (error.context, error.problem)))
    text = page.lines[here[0]]
    template = re.search(_UNQUOTED_TEMPLATE, text[: here[1] + 1])
    if template is not None and "quoted" not in why:
        start, end = template.start(1), len(text.rstrip())
        written = double_quoted(text[start:end])
        fix = written if written.isprintable() and len(written) <= MAX_FIX else "write the template in quotes"
        whole = page.mark(here[0], start, end)
        return Finding(ids.UNQUOTED_TEMPLATE, "error", UNQUOTED, "", whole, (ids.MEANINGS[ids.UNQUOTED_TEMPLATE],), fix)
    opened = (context.line, context.column) if context and context.line <= last and "block map" not in why else here
    spot, (message, because, fix) = _explain(why, page, here, opened)
    rule = ids.TAG if "tag" in why else ids.SYNTAX
    return Finding(rule, "error", message, "", page.mark(spot[0], spot[1], spot[1] + 1), (because,), fix)


def missing_space(text: str) -> str | None:
    """`beta: 0.04` for a line `beta:0.04`, else None."""
    match = re.fullmatch(_NO_SPACE, text)
    return f"{visible_text(match[1], 40)}: {visible_text(match[2], 40)}" if match else None


def _explain(why: str, page: Page, here: Place, opened: Place) -> tuple[Place, Words]:
    line, column = here
    before, character = page.lines[line][:column], page.lines[line][column : column + 1]
    if character == "\t" or "tab character" in why:
        return here, _TAB
    if "unexpected" in why and "quoted" in why:
        return opened, _OPEN_QUOTE
    word = re.search(r"""[^\s,'"{}\[\]]+$""", before) if character in ("[", "{") else None
    if "expected ','" in why and word is None:
        return opened, _open_bracket(page, here, opened)
    if "cannot start any token" in why or "alphabetic or numeric" in why:
        return opened, _first_character(page.lines[opened[0]], opened[1])
    if "expected ':'" in why:
        return _start(page, opened[0]), _no_colon(page.lines[opened[0]])
    if "mapping values are not allowed" in why and re.search(r":\s", before):
        return here, _SECOND_COLON
    if "mapping values are not allowed" in why:
        above = next((number for number in range(line - 1, -1, -1) if page.lines[number].strip()), 0)
        if missing_space(page.lines[above]) is not None:
            return _start(page, above), _no_colon(page.lines[above])
        return here, _INDENTATION
    if "block mapping" in why and not before.strip():
        return here, _INDENTATION
    if "expected ','" in why and word is not None:
        opened = (line, word.start())
    elif "escape" in why or "decimal" in why:
        opened = (line, max(0, page.lines[line].rfind("\\", 0, column + 2)))
    return opened, (
        "the text is not YAML",
        f"the parser says: {visible_text(why, 120)}",
        "write the value in single quotes",
    )


def _start(page: Page, line: int) -> Place:
    return line, len(page.lines[line]) - len(page.lines[line].lstrip())


def _no_colon(text: str) -> Words:
    written = missing_space(text)
    if written is not None:
        return "a space is missing after the colon", "without it YAML reads the line as one text", written
    return (
        f"the line is neither `key: value` nor a list item: {visible_text(text.strip(), 40)}",
        "inside a mapping each line starts with a key and a colon",
        "write it as `key: value`, or in quotes if it continues the text above",
    )


def _open_bracket(page: Page, here: Place, opened: Place) -> Words:
    bracket = page.lines[opened[0]][opened[1] : opened[1] + 1]
    closing = "]" if bracket == "[" else "}"
    return (
        f"the {visible_text(bracket)} that opens here is not closed, or a comma is missing in it",
        f"on line {here[0] + 1}, column {here[1] + 1}, the parser expected , or {closing}",
        f"add the comma, or {closing}; put a text with a bracket in quotes",
    )


def _first_character(text: str, column: int) -> Words:
    rest = text[column:].split(" #")[0].strip()
    if "[" in text[:column] or "{" in text[:column]:
        rest = re.split(r"[\],}]", rest)[0].strip()
    first = visible_text(rest[:1])
    fix = single_quoted(rest) if rest.isprintable() and len(rest) <= MAX_FIX else "write the value in quotes"
    return f"a value does not start with {first}", f"{first} has a special meaning in YAML", fix
