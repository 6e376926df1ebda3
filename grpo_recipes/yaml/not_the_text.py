"""Warns about texts that YAML or a pattern reads differently than they look, and doubles backslashes in patterns."""

import re
from collections.abc import Iterator
from typing import Any

from grpo_recipes.contract.findings.finding import Finding, Patch, Path, path_text
from grpo_recipes.contract.findings.wording import entry
from grpo_recipes.yaml import ids
from grpo_recipes.yaml.page import Page, single_quoted, visible_text

_PROSE = frozenset(("columns", "prompt", "stop", "system_prompt"))
_TEX_OF_N_AND_T = (
    r"n(?:abla|eq?|eg|ewline|mid|ot|otin|u)|t(?:ag|an|au|ext\w*|frac|herefore|heta|ilde|imes|o|op|riangle)"
)
_TEX = (
    rf"(?<!\\)((?:\\\\)*)\\(?=(?:{_TEX_OF_N_AND_T}|alpha|approx|begin|beta|binom|boxed|delta|Delta|dfrac|div|dot|dots|frac"
    r"|forall|rho|right|Sigma|sigma|sin|sqrt|sum|varepsilon|vec)(?![A-Za-z]))"
)
_BREAK = rf"(?<!\\)\\(?!(?:{_TEX_OF_N_AND_T})(?![A-Za-z]))([nt])"
_JINJA = r"(?s)(\{\{.*?\}\}|\{%.*?%\})"


def not_the_text(page: Page, event: Any, path: Path, value: object) -> Iterator[Finding]:
    """Findings for a scalar with a backslash, or with a comment after one space."""
    words = _eaten(page, event, path, value) if not event.style else None
    if words is None and isinstance(value, str) and "\\" in value:
        words = _in_a_pattern(path, value) if is_pattern(path) else _not_a_break(event, path, value)
    if words is not None:
        yield _warning(page, event, path, words)


def is_pattern(path: Path) -> bool:
    """Whether the value at a path is a regular expression."""
    return bool(path) and (path[-1] == "pattern" or "regex" in str(path[-1]))


def with_tex(pattern: str) -> str:
    """The pattern with the backslash of each TeX command doubled, so that it matches a backslash."""
    return re.sub(_TEX, r"\1\\\\", pattern)


def tab_of_tex(page: Page, event: Any, path: Path) -> Iterator[Finding]:
    """Findings for a text in double quotes in which a TeX command's first letters became a tab or a line break."""
    raw = page.text[event.start_mark.index + 1 : event.end_mark.index - 1]
    match = re.search(rf"(?<!\\)(?:\\\\)*(\\(?:{_TEX_OF_N_AND_T}|rho|right))(?![A-Za-z])", raw)
    if match is not None:
        because = f"in double quotes {match[1][:2]} is an escape"
        yield _warning(
            page, event, path, (f"{match[1]} in double quotes is not a backslash", because, f"write \\{match[1]}", ())
        )


Words = tuple[str, str, str | None, tuple[Patch, ...]]


def _warning(page: Page, event: Any, path: Path, words: Words) -> Finding:
    message, because, fix, patch = words
    start, end = event.start_mark, event.end_mark
    mark = page.mark(start.line, start.column, end.column if end.line == start.line else 1 << 30)
    return Finding(
        ids.NOT_THE_TEXT, "warning", message, visible_text(path_text(path), 200), mark, (because,), fix, patch
    )


def _eaten(page: Page, event: Any, path: Path, value: object) -> Words | None:
    """A sentence that goes on after a #, or an empty value before a ##."""
    end: int = event.end_mark.index
    comment = page.text[end:].split("\n", 1)[0].strip()
    if not comment.startswith("#"):
        return None
    is_marker = re.match(r"##|#[^\s#!]", comment) is not None
    if isinstance(value, str):
        is_prose = not _PROSE.isdisjoint(path) and not value.endswith((".", "!", "?"))
        if not (is_prose or (is_marker and " " in value)):
            return None
    elif value is not None or not comment.startswith("##"):
        return None
    text = f"{event.value} {comment}".strip()
    fix = entry(path, single_quoted(text)) if path and len(text) <= 100 else "write the whole text in quotes"
    because = "outside quotes, YAML takes # after a space as the start of a comment"
    return f"{visible_text(comment, 40)} is a comment, and not part of the text", because, fix, ()


def _in_a_pattern(path: Path, value: str) -> Words | None:
    """A TeX command whose backslash starts an escape of regular expressions."""
    command = re.search(_TEX, value)
    right = with_tex(value)
    if command is None or right == value:
        return None
    name = re.split(r"(?<=[A-Za-z])(?![A-Za-z])", value[command.end() - 1 :])[0]
    because = f"in a regular expression {name[:2]} is an escape; \\\\ matches a backslash"
    return f"the pattern does not match {name}", because, entry(path, single_quoted(right)), (Patch(path, right),)


def _not_a_break(event: Any, path: Path, value: str) -> Words | None:
    r"""A \n or \t outside double quotes, in a text for the model."""
    if event.style == '"' or _PROSE.isdisjoint(path) or not ("\\n" in value or "\\t" in value):
        return None
    parts = re.split(_JINJA, value)
    if not any(re.search(_BREAK, part) for part in parts[::2]):
        return None
    characters = {"n": "\n", "t": "\t"}
    parts[::2] = [re.sub(_BREAK, lambda match: characters[match[1]], part) for part in parts[::2]]
    right = "".join(parts)
    escape = next(match[0] for part in re.split(_JINJA, value)[::2] if (match := re.search(_BREAK, part)))
    quotes = {"'": "in single quotes", "|": "in a block", ">": "in a block"}.get(event.style, "without quotes")
    fix = "write the text in double quotes, where a backslash starts an escape"
    return (
        f"{escape} {quotes} is a backslash and a letter",
        "only double quotes have escapes",
        fix,
        (Patch(path, right),),
    )
