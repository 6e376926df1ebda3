"""Writes the fixes of findings into a recipe's text, editing only the affected places."""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import yaml

from grpo_recipes.contract.findings.finding import ABSENT, Patch, Path, value_at
from grpo_recipes.resolve.fixes.entries import (
    BREAK,
    KeyEntry,
    Node,
    NotRewritten,
    OwnLines,
    after_break,
    end_of,
    entry_at,
    line_end,
    line_start,
    own_lines,
    shift_lines,
)
from grpo_recipes.yaml.compose import with_patches
from grpo_recipes.yaml.load import load_text
from grpo_recipes.yaml.nodes import LOADER
from grpo_recipes.yaml.page import single_quoted
from grpo_recipes.yaml.scalars import WORDS, read_plain

_PLAIN = r"[A-Za-z][\w./-]*(:\w+)?"


def apply_patches(text: str, *findings: Sequence[Patch], file: str = "") -> str:
    """The text with the patches of all findings applied; only the lines that a patch changes differ.

    A removal together with a setting of the same value moves the key, with its comments and its value as written. Its
    comments also move with a different value that the same finding sets. Raises NotRewritten if the text cannot be
    read, a patch is for a missing list item, or the new text would not have the intended values.
    """
    finding_of = {id(patch): number for number, patches in enumerate(findings) for patch in patches}
    waiting = list(_last_items_first(chain.from_iterable(findings)))
    result, before = text, load_text(text, file)[0]
    if before is None:
        raise NotRewritten("the text cannot be read")
    try:
        expected = with_patches(before.values, waiting)
        values = before.values
        while waiting:
            patch = waiting.pop(0)
            beside = waiting[0] if waiting else None
            old = value_at(values, patch.path, ABSENT)
            if beside is not None and patch.remove and not beside.remove and beside.value in (old, [old]):
                if beside.value != old:
                    result = _set(result, patch.path, beside.value, old)
                result = _move(result, patch.path, beside)
                values = with_patches(values, (patch, waiting.pop(0)))
                continue
            is_one = beside is not None and finding_of[id(patch)] == finding_of[id(beside)]
            if is_one and beside and patch.remove and not beside.remove and _is_new_scalar(values, beside, old):
                result = _move(result, patch.path, Patch(beside.path, old))
                values = with_patches(values, (patch, Patch(beside.path, old)))
                continue
            result = _remove(result, patch.path) if patch.remove else _set(result, patch.path, patch.value, old)
            values = with_patches(values, (patch,))
    except (yaml.YAMLError, KeyError, IndexError, TypeError, AttributeError) as error:
        raise NotRewritten(str(error)) from error
    after = load_text(result, file)[0]
    if after is None or after.values != expected:  # happens if an alias repeats a value elsewhere
        raise NotRewritten("the patched text would be read as something else")
    return result


def _last_items_first(patches: Iterable[Patch]) -> Iterator[Patch]:
    """Removals of list items after everything else, from the last item on, so that no index moves before its use."""
    ordered = list(patches)
    removals = [patch for patch in ordered if patch.remove and isinstance(patch.path[-1], int)]
    yield from (patch for patch in ordered if patch not in removals)
    yield from sorted(removals, key=lambda patch: int(patch.path[-1]), reverse=True)


def _is_new_scalar(values: Any, setting: Patch, old: object) -> bool:
    """Whether a scalar gets both a new key and a new value: its comments go with it."""
    is_scalar = all(isinstance(value, str | int | float) for value in (old, setting.value))
    return is_scalar and value_at(values, setting.path, ABSENT) is ABSENT


def _set(text: str, path: Path, value: object, old: object) -> str:
    entry = entry_at(text, path)
    if entry is None:
        return _insert(text, path, f": {_one_line_yaml(value)}", [])
    node = entry.value
    start, end = node.start_mark.index, entry.end
    if anchor := re.compile(r"&\S+\s+").match(text, start):
        start = anchor.end()
    is_block = isinstance(node, yaml.CollectionNode) and not node.flow_style
    if value == [old] and is_block:
        lines = text[start:end]
        return text[:start] + "- " + shift_lines(lines, 2) + text[end:]
    if value == [old] and not (isinstance(node, yaml.ScalarNode) and node.style in (None, "|", ">")):
        return f"{text[:start]}[{text[start:end]}]{text[end:]}"
    if is_block or start == end:
        start = len(text[:start].rstrip()) if isinstance(entry.key, yaml.ScalarNode) else start
        if "#" in text[start:end] or text[start - 1] not in ":-":
            raise NotRewritten("a comment would be lost")
        return f"{text[:start]} {_one_line_yaml(value)}{text[end:]}"
    return text[:start] + _one_line_yaml(value) + text[end:]


def _remove(text: str, path: Path) -> str:
    """The text without an entry; comments above it stay, the one on its line is removed."""
    entry = entry_at(text, path)
    if entry is None:
        return text
    if isinstance(path[-1], int) and not entry.parent.flow_style:
        dash = text.rindex("-", 0, entry.start)
        entry = entry._replace(start=dash)
    lines = own_lines(text, entry)
    above = len(lines.above) if lines else 0
    return _without(
        text, path, entry, lines._replace(start=line_start(text, entry.start)) if lines and above else lines
    )


def _move(text: str, path: Path, setting: Patch) -> str:
    """The text with a renamed or moved key, with its value as written and its comments."""
    name, entry = str(setting.path[-1]), entry_at(text, path)
    if entry is None:
        raise NotRewritten("the key is missing")
    if path[:-1] == setting.path[:-1]:
        quote = entry.key.style or ""
        return f"{text[: entry.start]}{quote}{name}{quote}{text[entry.key.end_mark.index :]}"
    lines, value_start = own_lines(text, entry), entry.key.end_mark.index
    body, comments = text[value_start : entry.end], []
    if lines is not None:
        comments = [*lines.above]
        if entry.parent.flow_style:
            body += "".join(f"  {comment}" for comment in lines.below)
        else:
            body = re.sub(rf"({BREAK})\Z", "", text[value_start : lines.end])
            body = shift_lines(body, -(entry.start - line_start(text, entry.start)))
    return _insert(_without(text, path, entry, lines), setting.path, body, comments, setting.value)


def _without(text: str, path: Path, entry: KeyEntry, lines: OwnLines | None) -> str:
    """The text without an entry: its lines or, if they hold other entries, from comma to comma."""
    is_only = len(entry.parent.value) == 1
    if lines is not None:
        left = text[: lines.start] + _separating_line(text, lines) + text[lines.end :]
        if is_only and not entry.parent.flow_style:
            around = entry_at(text, path[:-1])
            colon = re.compile(r"\s*:").match(text, around.key.end_mark.index) if around else None
            if colon is None:
                raise NotRewritten("the section would be left empty")
            left = f"{left[: colon.end()]} {'[]' if isinstance(path[-1], int) else '{}'}{left[colon.end() :]}"
        return left
    if not entry.parent.flow_style:
        behind = next((key for key, _ in entry.parent.value if key.start_mark.index > entry.start), None)
        if behind is None or "#" in text[entry.end : behind.start_mark.index]:
            raise NotRewritten("a comment would be lost")
        return text[: entry.start] + text[behind.start_mark.index :]
    comma = re.compile(r"[ \t]*,[ \t]*").match(text, entry.end)
    start, end = entry.start, comma.end() if comma else entry.end
    if entry.is_last and not is_only and not re.search(BREAK, text[entry.before : start]):
        start, end = entry.before, entry.end
    elif end == line_end(text, end):
        start = len(text[:start].rstrip(" \t"))
    return text[:start] + text[end:]


def _separating_line(text: str, lines: OwnLines) -> str:
    """An empty line instead of the lines if comments that stay would join those of the next key, else ""."""
    before = re.search(rf"(?:^|[\r\n])( *)#[^\r\n]*({BREAK})\Z", text[: lines.start])
    behind = re.compile(r"( *)#").match(text, lines.end)
    return before[2] if before and behind and before[1] == behind[1] else ""


def _insert(text: str, path: Path, body: str, above: list[str], value: object = None) -> str:
    """The text with an entry after the others of its map.

    body: from the colon on, its further lines indented from 0; above: comments. value: the value of the body.
    """
    depth = next(
        depth for depth in range(len(path) - 1, -1, -1) if not depth or entry_at(text, path[:depth]) is not None
    )
    around = entry_at(text, path[:depth])
    node: Node = around.value if around is not None else yaml.compose(text, Loader=LOADER)
    has_comment = "#" in text[node.start_mark.index : node.end_mark.index]  # between the braces
    is_empty = isinstance(node, yaml.ScalarNode) or not (node.value or has_comment)
    if around is not None and is_empty and not around.parent.flow_style and (above or "#" in body):
        return _insert_below(text, around, path[depth:], body, above)
    if isinstance(node, yaml.ScalarNode):
        return _insert(_set(text, path[:depth], {}, None), path, body, above, value)
    if not isinstance(node, yaml.MappingNode):
        raise NotRewritten("only a map takes a key")
    match = re.search(BREAK, text)
    line_break, names = match[0] if match else "\n", [str(part) for part in path[depth:]]
    if node.flow_style and (above or "#" in body):
        raise NotRewritten("a comment would be lost")
    if node.flow_style:
        return _insert_in_flow(text, node, names, body, value, line_break)
    key, last = node.value[-1]
    column = key.start_mark.column
    entry = KeyEntry(node, key, last, 0, True, key.start_mark.index, end_of(text, last))
    lines = own_lines(text, entry)
    position = lines.end if lines else after_break(text, line_end(text, entry.end))
    return _with_lines(text, position, column, names, body, above)


def _insert_below(text: str, around: KeyEntry, path: Path, body: str, above: list[str]) -> str:
    """The text with an entry below a key whose section is empty, on separate lines so that comments have a place."""
    node = around.value
    text = text[: node.start_mark.index].rstrip(" ") + text[node.end_mark.index :]
    position = after_break(text, line_end(text, around.key.end_mark.index))
    return _with_lines(text, position, around.key.start_mark.column + 2, [str(part) for part in path], body, above)


def _with_lines(text: str, position: int, column: int, names: list[str], body: str, above: list[str]) -> str:
    """The text with an entry, and its new sections, on lines in their column."""
    match = re.search(BREAK, text)
    line_break, deep = match[0] if match else "\n", column + 2 * (len(names) - 1)
    rows = [" " * (column + 2 * level) + name + ":" for level, name in enumerate(names[:-1])]
    rows += [" " * deep + comment for comment in above]
    rows.append(" " * deep + names[-1] + shift_lines(body, deep))
    new = line_break.join(rows)
    is_open = position == len(text) and not re.search(rf"({BREAK})\Z", text)
    return text[:position] + (line_break + new if is_open else new + line_break) + text[position:]


def _insert_in_flow(text: str, node: Node, names: list[str], body: str, value: object, line_break: str) -> str:
    """The text with an entry in a flow map, on one line."""
    flow_body = f": {_one_line_yaml(value)}" if re.search(BREAK, body) else body.rstrip()
    new = "".join(f"{name}: {{" for name in names[:-1]) + names[-1] + flow_body + "}" * (len(names) - 1)
    end: int = node.end_mark.index - 1
    if not node.value:
        return text[:end] + new + text[end:]
    key, last = node.value[-1]
    position = end_of(text, last)
    comma = re.compile(r"[ \t]*,").match(text, position)
    lines = own_lines(text, KeyEntry(node, key, last, 0, True, key.start_mark.index, position))
    if lines is None:
        return f"{text[:position]}, {new}{text[position:]}"
    row: str = " " * key.start_mark.column + new + ("," if comma else "") + line_break
    return text[:position] + ("" if comma else ",") + text[position : lines.end] + row + text[lines.end :]


def _one_line_yaml(value: object) -> str:
    """A value as one-line YAML, quoted if a reader could take it for something else."""
    if isinstance(value, str):
        if value and (value.lower() in WORDS or read_plain(value) != value):
            return json.dumps(value, ensure_ascii=False)
        is_plain = re.fullmatch(_PLAIN, value) and value.isascii()
        return value if is_plain else single_quoted(value) if value.isprintable() else json.dumps(value)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_one_line_yaml(key)}: {_one_line_yaml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_one_line_yaml, value)) + "]"
    return "null" if value is None else str(value).lower()  # 1e-06 and inf are read the same in lower case
