"""Finds an entry of a recipe in its text, with the comments that belong to it."""

import re
from typing import Any, NamedTuple

import yaml

from grpo_recipes.contract.findings.finding import Path
from grpo_recipes.yaml.nodes import LOADER

Node = Any
"""A yaml.Node; its stubs let marks be missing, which the parser never does."""

BREAK = r"\r\n|\r|\n"


class NotRewritten(Exception):
    """The patched text would not mean what the patches say, or would lose a comment."""


class KeyEntry(NamedTuple):
    """A key with its value, or a list item, whose key is the item itself.

    start, end: from the key's first character to the value's last, in the text.
    """

    parent: Node
    key: Node
    value: Node
    before: int
    is_last: bool
    start: int
    end: int


class OwnLines(NamedTuple):
    """The lines of an entry with the comments that belong to it, from their start to their last line break."""

    start: int
    end: int
    above: list[str]
    below: list[str]


def entry_at(text: str, path: Path) -> KeyEntry | None:
    """The entry at a path, None if its map lacks it. Raises NotRewritten at an alias, whose text is elsewhere too."""
    node: Node = yaml.compose(text, Loader=LOADER)
    entry: KeyEntry | None = None
    for depth, part in enumerate(path):
        if isinstance(node, yaml.MappingNode):
            pairs = node.value
            places = [index for index, (key, _) in enumerate(pairs) if key.value == part]
            if not places and (depth == len(path) - 1 or not isinstance(path[depth + 1], int)):
                return None
            position = places[-1]
        elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
            position, pairs = part, [(item, item) for item in node.value]
        else:
            return None
        key, value = pairs[position]
        if value.start_mark.index < node.start_mark.index or value.start_mark.index < key.start_mark.index:
            raise NotRewritten("the value is an alias")
        before = end_of(text, pairs[position - 1][1]) if position else node.start_mark.index + 1
        start = key.start_mark.index
        entry = KeyEntry(node, key, value, before, position == len(pairs) - 1, start, end_of(text, value))
        node = value
    return entry


def end_of(text: str, node: Node) -> int:
    """The end of a value's own text; the parser's end of a block is after the comments that follow it."""
    end: int = node.end_mark.index
    if isinstance(node, yaml.ScalarNode):
        return len(text[:end].rstrip()) if node.style in ("|", ">") else end
    if node.flow_style or not node.value:
        return end
    last = node.value[-1]
    key, value = last if isinstance(last, tuple) else (node, last)
    if value.start_mark.index < key.start_mark.index:  # an alias, whose node is that of its anchor
        raise NotRewritten("the value is an alias")
    return end_of(text, value)


def line_start(text: str, position: int) -> int:
    return max(text.rfind("\n", 0, position), text.rfind("\r", 0, position)) + 1


def line_end(text: str, position: int) -> int:
    line_break = re.compile(BREAK).search(text, position)
    return line_break.start() if line_break else len(text)


def after_break(text: str, position: int) -> int:
    line_break = re.compile(BREAK).match(text, position)
    return line_break.end() if line_break else position


def own_lines(text: str, entry: KeyEntry) -> OwnLines | None:
    """The lines that hold only an entry and its comments: those right above it in its column, and deeper ones below it.
    Comments that begin on the first line belong to the file. None if its lines hold anything else.
    """
    start, end = line_start(text, entry.start), line_end(text, entry.end)
    column = entry.start - start
    is_flow = entry.parent.flow_style
    rest = re.fullmatch(r"[ \t]*,?[ \t]*(#.*)?" if is_flow else r"[ \t]*(#.*)?", text[entry.end : end])
    before = text[start : entry.start].strip()
    is_led = before == "," and is_flow and "," not in text[entry.end : end].partition("#")[0]
    if (before and not is_led) or rest is None:
        return None
    above: list[str] = []
    below = [rest[1].rstrip()] if rest[1] else []
    first = start
    while first > 0 and re.match(rf" {{{column}}}#", line := text[line_start(text, first - 1) : first]):
        first = line_start(text, first - (2 if line.endswith("\r\n") else 1))
        above.insert(0, line.strip())
    if first == 0:
        first, above = start, []
    while not is_flow and re.match(rf" {{{column + 1},}}#", text[(next_line := after_break(text, end)) :]):
        end = line_end(text, next_line)
        below.append(text[next_line:end].strip())
    return OwnLines(first, after_break(text, end), above, below)


def shift_lines(lines: str, columns: int) -> str:
    """The lines except the first, indented further, or less as far as they have spaces."""
    if columns >= 0:
        return re.sub(rf"({BREAK})(?=[ \t]*[^\s])", lambda match: match[0] + " " * columns, lines)
    return re.sub(rf"({BREAK}) {{1,{-columns}}}", lambda match: match[1], lines)
