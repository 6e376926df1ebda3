"""Explains YAML syntax errors in our own words, recognized by the messages of PyYAML 6 and libyaml 0.2.5."""

import re
from typing import NamedTuple

from yaml import MarkedYAMLError

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.yaml import ids
from grpo_recipes.yaml.page import Page, shown, single_quoted
from grpo_recipes.yaml.refusals import MAX_FIX, READ_AS_A_MAPPING, UNQUOTED, double_quoted

_NO_SPACE = r"\s*(?:- )?([A-Za-z_][\w.-]*):([^\s:/][^\s:]*)\s*"
_UNQUOTED_TEMPLATE = r"(?:^|[:\[,-]\s+)(\{\{)"
_INDENTATION = (
    "the keys of one mapping start in the same column, below it deeper",
    "start the line in the column of the keys around it",
)


class _Problem(NamedTuple):
    """The parser's error. column counts from 0; opened: the place where the unfinished construct starts."""

    said: str
    page: Page
    line: int
    column: int
    opened: tuple[int, int] | None

    @property
    def text(self) -> str:
        return self.page.lines[self.line]

    @property
    def character(self) -> str:
        return self.text[self.column : self.column + 1]


Words = tuple[str, str, str]
Place = tuple[int, int, int]


def syntax_finding(error: MarkedYAMLError, page: Page) -> Finding:
    """The finding for a text that is not YAML."""
    problem = _problem(error, page)
    instead = _template(problem)
    if instead is not None:
        return instead
    place, words = _place(problem)
    message, because, fix = words or _words(problem)
    rule = ids.TAG if "tag" in problem.said else ids.SYNTAX
    return Finding(rule, "error", message, "", page.mark(*place), (because,), fix)


def missing_space(text: str) -> str | None:
    """`beta: 0.04` for a line `beta:0.04`, else None."""
    found = re.fullmatch(_NO_SPACE, text)
    return f"{shown(found[1], 40)}: {shown(found[2], 40)}" if found else None


def _place(problem: _Problem) -> tuple[Place, Words | None]:
    """Line, column and end to show, and the message if it follows from the place."""
    said, lines, opened = problem.said, problem.page.lines, problem.opened
    if opened is not None and "could not find expected ':'" in said:
        return _whole(lines, opened[0]), _no_colon(lines[opened[0]])
    if "mapping values are not allowed" in said and ":" not in problem.text[: problem.column]:
        above = next((number for number in range(problem.line - 1, -1, -1) if lines[number].strip()), 0)
        words = _missing_space(lines[above])
        if words is not None:
            return _whole(lines, above), words
    if "escape" in said or "hexadecimal" in said or "hexdecimal" in said:
        backslash = max(0, problem.text.rfind("\\", 0, problem.column + 2))
        return (problem.line, backslash, backslash + 2), None
    if "expected ','" in said and (found := _word_with_bracket(problem)) is not None:
        word = problem.text[slice(*found)]
        because = "inside {...} and [...], an unquoted bracket starts another list or mapping"
        return (problem.line, *found), (
            f"{shown(word)} has a bracket, so it needs quotes here",
            because,
            single_quoted(word),
        )
    if opened is not None and any(part in said for part in _SHOWN_WHERE_IT_OPENS):
        return (*opened, opened[1] + 1), None
    return (problem.line, problem.column, problem.column + 1), None


_SHOWN_WHERE_IT_OPENS = (
    "unexpected end of stream",
    "unexpected document",
    "expected ','",
    "alphabetic or numeric",
    "block scalar",
    "tag",
)


def _word_with_bracket(problem: _Problem) -> tuple[int, int] | None:
    """Start and end of a word such as train[:90%] whose bracket caused the error, None otherwise."""
    start = max(0, problem.column - MAX_FIX)
    before = re.search(r"""(?<=[\s,{\[])[^\s,'"{}\[\]]+$""", problem.text[start : problem.column])
    after = re.match(r"(?:[\[{][^\]}]*[\]}][^\s,{}\[\]]*)+", problem.text[problem.column : problem.column + MAX_FIX])
    return (start + before.start(), problem.column + after.end()) if before and after else None


def _whole(lines: list[str], line: int) -> Place:
    text = lines[line]
    return line, len(text) - len(text.lstrip()), len(text.rstrip())


def _template(problem: _Problem) -> Finding | None:
    """The finding if an unquoted {{ ... }} caused the error."""
    found = re.search(_UNQUOTED_TEMPLATE, problem.text[: problem.column + 1])
    if found is None or "quoted" in problem.said:
        return None
    start, end = found.start(1), len(problem.text.rstrip())
    written = double_quoted(problem.text[start:end])
    fix = written if written.isprintable() and len(written) <= MAX_FIX else "write the template in quotes"
    mark = problem.page.mark(problem.line, start, end)
    return Finding(ids.UNQUOTED_TEMPLATE, "error", UNQUOTED, "", mark, (READ_AS_A_MAPPING,), fix)


def _problem(error: MarkedYAMLError, page: Page) -> _Problem:
    mark, context = error.problem_mark or error.context_mark, error.context_mark
    line, column = (mark.line, mark.column) if mark else (0, 0)
    if line >= len(page.lines):
        line, column = len(page.lines) - 1, len(page.lines[-1])
    opened = (context.line, context.column) if context and context.line < len(page.lines) else None
    return _Problem(f"{error.problem} {error.context or ''}", page, line, column, opened)


def _missing_space(text: str) -> Words | None:
    written = missing_space(text)
    message, because = "a space is missing after the colon", "without it YAML reads the line as one text"
    return None if written is None else (message, because, written)


def _no_colon(text: str) -> Words:
    return _missing_space(text) or (
        f"the line is neither `key: value` nor a list item: {shown(text.strip(), 40)}",
        "inside a mapping each line starts with a key and a colon",
        "write it as `key: value`, or in quotes if it continues the text above",
    )


def _words(problem: _Problem) -> Words:
    said, character = problem.said, problem.character
    if character == "\t" or "tab character" in said:
        return "a tab where YAML only takes spaces", "YAML indents with spaces", "replace the tab with spaces"
    for part, words in _KNOWN.items():
        if part in said:
            return words
    if "cannot start any token" in said or "alphabetic or numeric" in said:
        return _first_character(problem)
    if "expected ','" in said:
        return _bracket(problem)
    if "mapping values are not allowed" in said:
        return _second_colon(problem)
    if "expected key" in said or "block end" in said or "'-' indicator" in said or "document start" in said:
        return _does_not_fit(problem)
    return "the text is not YAML", f"the parser says: {shown(said.strip(), 100)}", "write the value in quotes"


_OPEN_QUOTE = (
    "the quote that opens here is not closed",
    "the text, or a line --- or ..., ends before the closing quote",
    "close the quote; inside single quotes write '' for one quote",
)
_ESCAPE = (
    "an escape in double quotes is not valid in YAML",
    "in double quotes a backslash starts an escape",
    "write the text in single quotes, where a backslash is a backslash",
)
_KNOWN: dict[str, Words] = {
    "unexpected end of stream": _OPEN_QUOTE,
    "unexpected document": _OPEN_QUOTE,
    "escape": _ESCAPE,
    "hexadecimal": _ESCAPE,
    "hexdecimal": _ESCAPE,
    "tag": ("a tag starts here", "! at the start of a value starts a tag", "write the value in quotes"),
}


def _first_character(problem: _Problem) -> Words:
    line, column = problem.line, problem.column
    if "alphabetic" in problem.said and problem.opened is not None:
        line, column = problem.opened
    before, rest = problem.page.lines[line][:column], problem.page.lines[line][column:].split(" #")[0].strip()
    if "[" in before or "{" in before:
        rest = re.split(r"[\],}]", rest)[0].strip()
    first = shown(rest[:1])
    fix = single_quoted(rest) if rest.isprintable() and len(rest) <= MAX_FIX else "write the value in quotes"
    return f"a value does not start with {first}", f"{first} has a special meaning in YAML", fix


def _bracket(problem: _Problem) -> Words:
    line, column = problem.opened or (problem.line, problem.column)
    bracket = problem.page.lines[line][column : column + 1]
    closing = "]" if bracket == "[" else "}"
    return (
        f"the {shown(bracket)} that opens here is not closed, or a comma is missing in it",
        f"the parser stopped on line {problem.line + 1} where it expected , or {closing}",
        f"add the comma, or {closing}",
    )


def _second_colon(problem: _Problem) -> Words:
    if re.search(r":\s", problem.text[: problem.column]):
        return (
            "a second colon with a space after it is on this line",
            "one line holds one key; a colon and a space inside a text start another",
            "write the text after the first colon in quotes",
        )
    if problem.line == 0:
        return "the colon does not end a key here", "a key is one short text", "write the value in quotes"
    return "the line does not fit the one above", *_INDENTATION


def _does_not_fit(problem: _Problem) -> Words:
    if problem.text[: problem.column].strip():
        return (
            "something follows the end of the value",
            "a closing quote, a bracket or an alias ends it",
            "write the whole value in quotes, or remove the rest",
        )
    return "the line does not fit the ones above", *_INDENTATION
