"""What a docstring tells a model, as parse_google_format_docstring of transformers reads it, line by line.

Its patterns retry every run of spaces from each of its characters, which never ends for a long docstring.
"""

import json
import re
from collections.abc import Mapping

_MARK = "Args:|Returns:|Raises:"
_END = "Returns:|Raises:"
_ARGUMENT = r"([ \t]*)(\w+):"
_TYPED_ARGUMENT = r"([ \t]*)(\w+)(?:[ \t]*\([^()\n]*\))?:"
_CHOICES = r"(?i)\(choices:"


def description(text: str) -> str:
    """The part of a docstring before its first section."""
    text = text.strip()
    section = re.search(_MARK, text)
    return (text if section is None else text[: section.start()]).strip()


def argument_texts(text: str, *, reads_types: bool) -> Mapping[str, str]:
    """The text about each argument in a docstring, by name. reads_types: of `name (type): ...` too.

    An argument that is indented deeper belongs to the previous one, as does the line after an argument without a text.
    """
    texts: dict[str, list[str]] = {}
    parts: list[str] | None = None
    indent, takes_next = "", False
    argument = _TYPED_ARGUMENT if reads_types else _ARGUMENT
    for line in _block(text.strip()).split("\n"):
        if not line.strip():
            continue
        start = None if takes_next else re.match(argument, line)
        if start is not None and (parts is None or not line.startswith((f"{indent} ", f"{indent}\t"))):
            indent, rest = start[1], line[start.end() :].strip()
            parts = texts[start[2]] = [rest] if rest else []
            takes_next = not rest
        elif parts is not None:
            parts.append(line.strip())
            takes_next = False
    return {name: " ".join(lines) for name, lines in texts.items()}


def _block(text: str) -> str:
    """The lines below `Args:`, which must be on a separate line that is neither the first nor the last."""
    lines = text.split("\n")
    start = next((index for index in range(1, len(lines) - 1) if lines[index].lstrip() == "Args:"), None)
    return "" if start is None else re.split(_END, "\n".join(lines[start + 1 :]), maxsplit=1)[0]


def choices_not_read(text: str) -> str | None:
    """The choices at the end of an argument's text if they are not a JSON list; None if they are, or there are none."""
    choices = re.search(_CHOICES, text)
    if choices is None or not text.rstrip().endswith(")"):
        return None
    written = text[choices.end() :].strip().removesuffix(")").strip()
    try:
        value = json.loads(written)
    except (ValueError, RecursionError):
        return written
    return None if isinstance(value, list | dict | str) else written
