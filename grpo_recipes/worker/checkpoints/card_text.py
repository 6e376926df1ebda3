"""Parts of a model card as Markdown that says what a recipe says, and steers nothing."""

import re
from typing import Any


def table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    """A table of Markdown: the head, then the rows; each cell is one line."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def code(value: object) -> str:
    """A value as code."""
    return f"`{one_line(value).replace('`', '')}`"


def one_line(value: object) -> str:
    """A value on one line, without what steers a terminal."""
    return " ".join(_without_steering(str(value)).split())


def _cell(value: object) -> str:
    """A value in a table: code as it is, anything else as plain text."""
    text = one_line(value)
    return text.replace("|", "\\|") if text.startswith("`") and text.endswith("`") else inline(text)


def plain(value: object) -> str:
    """A text as a paragraph that is shown as it is written, with no tag, link, picture or heading of a recipe's own."""
    return re.sub(r"^([#>+=-])", r"\\\1", inline(one_line(value)))


def inline(text: str) -> str:
    """A text in which nothing is a tag, a link or emphasis."""
    return re.sub(r"([\\`*\[\]|~])", r"\\\1", text).replace("<", "&lt;")


def _without_steering(text: str) -> str:
    """Without the characters that turn the direction of writing or steer a terminal."""
    return "".join(one if one.isprintable() or one.isspace() else "\ufffd" for one in text)


def fenced(text: str, language: str) -> str:
    """The text between fences that are longer than any in it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}{fence}"
