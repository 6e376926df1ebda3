"""What a docstring says to a model: what parse_google_format_docstring of transformers 5.23 reads, line by line.

Its patterns try every run of spaces again from each of its characters, which a long docstring would take for ever.
"""

import json
import re
from collections.abc import Mapping

_MARK = "Args:|Returns:|Raises:"
_END = "Returns:|Raises:"
_ARGUMENT = r"([ \t]*)(\w+):"
_CHOICES = r"(?i)\(choices:"


def description(text: str) -> str:
    """What a docstring says before its first section."""
    text = text.strip()
    found = re.search(_MARK, text)
    return (text if found is None else text[: found.start()]).strip()


def argument_texts(text: str) -> Mapping[str, str]:
    """What a docstring says of each argument, by its name.

    One that is indented deeper belongs to the one before, and so does the line behind an argument without a text.
    """
    found: dict[str, list[str]] = {}
    said: list[str] | None = None
    indent, takes_next = "", False
    for line in _block(text.strip()).split("\n"):
        if not line.strip():
            continue
        start = None if takes_next else re.match(_ARGUMENT, line)
        if start is not None and (said is None or not line.startswith((f"{indent} ", f"{indent}\t"))):
            indent, rest = start[1], line[start.end() :].strip()
            said = found[start[2]] = [rest] if rest else []
            takes_next = not rest
        elif said is not None:
            said.append(line.strip())
            takes_next = False
    return {name: " ".join(lines) for name, lines in found.items()}


def _block(text: str) -> str:
    """The lines below `Args:`, which is a line of its own that is neither the first one nor the last."""
    lines = text.split("\n")
    start = next((place for place in range(1, len(lines) - 1) if lines[place].lstrip() == "Args:"), None)
    return "" if start is None else re.split(_END, "\n".join(lines[start + 1 :]), maxsplit=1)[0]


def unread_choices(said: str) -> str | None:
    """The choices at the end of an argument's text where they are no list of JSON; None where they are, or none."""
    found = re.search(_CHOICES, said)
    if found is None or not said.rstrip().endswith(")"):
        return None
    written = said[found.end() :].strip().removesuffix(")").strip()
    try:
        value = json.loads(written)
    except (ValueError, RecursionError):
        return written
    return None if isinstance(value, list | dict | str) else written


def has_type_in_brackets(text: str, name: str) -> bool:
    """Whether an argument is written as `name (type): ...`, which is not read as one."""
    return any(line.lstrip().startswith((f"{name} (", f"{name}(")) for line in text.split("\n"))
