"""Turns the parser's events into values with places, without recursion, within limits, collecting all refusals.

Never builds an object from a tag, and expands an alias only after counting its size.
"""

import copy
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from grpo_recipes.contract.findings.finding import Finding, Mark, Path, below
from grpo_recipes.yaml import ids
from grpo_recipes.yaml.page import Page, visible_text
from grpo_recipes.yaml.refusals import STRING_TAG, Event, Refusals
from grpo_recipes.yaml.scalars import CURLY_QUOTES, TEXTS, WORDS, RefusedScalar, curly_quoted, read_plain

MAX_DEPTH = 32
MAX_VALUES = 20_000
# The place of a refused key and of its content, which belongs to no other key.
_REFUSED = -1

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(slots=True, eq=False, repr=False)
class Node:
    """A value with its place, counted from 0; end: the column after it on the line where it starts.

    path: where it is written. size and height count the value itself and everything below, aliases expanded; a scalar
    has height 0, an empty list 1.
    """

    line: int
    column: int
    end: int
    path: Path = ()
    value: Any = None
    size: int = 1
    height: int = 0


@dataclass(slots=True, eq=False, repr=False)
class _Open:
    """A list or mapping that is being read. key_event: of the key whose value comes next.

    lines: of each key, all lines on which it is written, from 0.
    """

    node: Node
    start: Event
    anchor: str | None
    key: str | None = None
    key_event: Event | None = None
    is_key: bool = False
    findings_before: int = 0
    lines: dict[str, list[int]] = field(default_factory=dict)


@dataclass(slots=True, eq=False, repr=False)
class Reader:
    """Reads one document. base: the path of its root, for an override.

    marks: of every mapping entry and list item, from the key's first character to the value's end, on the first line
    only; the root's is at `base`. words: plain scalars that YAML 1.1 reads as booleans, kept as text.
    """

    page: Page
    base: Path = ()
    refuse: Refusals = field(init=False)
    root: Node | None = None
    root_event: Event | None = None
    marks: dict[Path, Mark] = field(default_factory=dict)
    words: set[Path] = field(default_factory=set)
    _open: list[_Open] = field(default_factory=list)
    _anchors: dict[str, Node | None] = field(default_factory=dict)
    _values: int = 0
    _documents: int = 0

    def __post_init__(self) -> None:
        self.refuse = Refusals(self.page)

    def read(self) -> list[Finding]:
        """Reads the page into `root`; the findings are complete unless the parser had to stop.

        Raises yaml.YAMLError for a syntax error, and GivenUp if nothing more can be read after a refusal.
        """
        for event in yaml.parse(self.page.text, Loader=LOADER):
            kind = event.__class__
            if kind is ScalarEvent:
                self._scalar(event)
            elif kind is MappingStartEvent or kind is SequenceStartEvent:
                self._start(event)
            elif kind is MappingEndEvent or kind is SequenceEndEvent:
                self._end(event)
            elif kind is AliasEvent:
                self._alias(event)
            elif kind is DocumentStartEvent:
                self._document(event)
        return self.refuse.findings

    def _place(self) -> Path:
        """The place of the value that is being read."""
        if not self._open:
            return self.base
        parent = self._open[-1]
        if parent.node.value.__class__ is list:
            return (*parent.node.path, len(parent.node.value))
        return (*parent.node.path, _REFUSED if parent.key is None else parent.key)

    def _path(self) -> Path:
        """The path of the value that is being read, for a finding."""
        return tuple(part for part in self._place() if part != _REFUSED)

    def _awaits_key(self) -> bool:
        if not self._open:
            return False
        parent = self._open[-1]
        return parent.key_event is None and parent.node.value.__class__ is dict

    def _document(self, event: Event) -> None:
        self._documents += 1
        if self._documents > 1:
            self.refuse.give_up(ids.SECOND_DOCUMENT, "a second document starts here", event, "remove what follows")

    def _count(self, event: Event, size: int = 1) -> None:
        self._values += size
        if self._values > MAX_VALUES:
            message = f"the file holds more than {MAX_VALUES:,} values, with aliases expanded"
            self.refuse.give_up(ids.TOO_MANY_VALUES, message, event, "keep data in a data file")

    def _refuse_depth(self, event: Event, height: int) -> None:
        if len(self._open) + height > MAX_DEPTH:
            message = f"lists and mappings are nested more than {MAX_DEPTH} levels deep"
            self.refuse.give_up(ids.TOO_DEEP, message, event, "look for a bracket that is not closed")

    def _node(self, event: Event) -> Node:
        path, start, end = self._place(), event.start_mark, event.end_mark
        line, column = start.line, start.column
        if end.line != line:
            return Node(line, column, len(self.page.lines[line].rstrip()), path)
        if end.column == column > 0 and event.__class__ is ScalarEvent:
            # An empty value has no width, so the `-` or `:` before it is marked.
            return Node(line, column - 1, column, path)
        return Node(line, column, end.column, path)

    def _scalar(self, event: Event) -> None:
        self._count(event)
        if self._awaits_key():
            self._key(event)
            return
        node = self._node(event)
        if event.tag is not None:
            self.refuse.tag(event, self._path(), event.value)
        if event.style or event.tag == STRING_TAG:
            node.value = event.value
            if event.style == '"':
                node.value = self.refuse.control_characters(event, self._path())
        else:
            if event.value.lower() in WORDS:
                self.words.add(node.path)
            node.value = self._plain(event, node.path)
        if "\\" in event.value or self.page.text.startswith(" #", event.end_mark.index):
            from grpo_recipes.yaml.not_the_text import not_the_text  # its patterns take a millisecond to compile

            self.refuse.findings += not_the_text(self.page, event, self._path(), node.value)
        if not event.value.isascii():
            self.refuse.invisible_in_text(event, self._path())
        self._add(node, event, event.anchor)

    def _plain(self, event: Event, path: Path) -> object:
        value = read_plain(event.value)
        if value.__class__ is not str and value is not None and path[:2] == TEXTS:
            return event.value
        if value.__class__ is str and event.value[0] in CURLY_QUOTES:
            value = curly_quoted(event.value) or value
        if not isinstance(value, RefusedScalar):
            return value
        if event.tag is None:
            self.refuse.scalar(event, self._path(), value)
        return value.value

    def _key(self, event: Event) -> None:
        parent = self._open[-1]
        parent.key_event, parent.key = event, event.value
        if event.tag is not None:
            self.refuse.tag(event, self._path(), None)
        elif not event.value.isprintable():
            parent.key = self.refuse.invisible_in_key(event, self._path())
        elif not event.style and event.value == "<<":
            fix = "put the shared part into a separate file and write at the top level: extends: base.yaml"
            self.refuse.add(ids.MERGE_KEY, "the key << is not allowed", event, self._path(), fix)
            parent.key = None
        elif not event.style and not isinstance(read_plain(event.value), str):
            self.refuse.key_not_text(event, self._path(), event.value)
        if event.anchor:
            self._anchors[event.anchor] = Node(0, 0, 0, value=event.value)
        if parent.key in parent.lines:
            self.words.difference_update(below(parent.node.value[parent.key], self._place()))

    def _start(self, event: Event) -> None:
        self._refuse_depth(event, 1)
        self._count(event)
        node, is_key = self._node(event), self._awaits_key()
        node.height, node.value = 1, {} if event.__class__ is MappingStartEvent else []
        if event.anchor:
            self._anchors[event.anchor] = None
        before = len(self.refuse.findings)
        if event.tag is not None:
            self.refuse.tag(event, self._path(), None)
        self._open.append(_Open(node, event, event.anchor, is_key=is_key, findings_before=before))

    def _end(self, event: Event) -> None:
        closed = self._open.pop()
        node, start = closed.node, closed.start
        if start.flow_style and event.end_mark.line == node.line:
            node.end = event.end_mark.column
        if closed.is_key:
            self.refuse.key_not_text(start, self._path(), None)
            self._open[-1].key_event = start
            return
        text = self.page.text[start.start_mark.index : event.end_mark.index] if start.flow_style else ""
        if text.startswith("{{") and text.endswith("}}"):
            del self.refuse.findings[closed.findings_before :]
            self.refuse.add_unquoted_template(start, event, self._path(), text)
            node = Node(node.line, node.column, node.end, node.path, text)
        for key, lines in closed.lines.items():
            if len(lines) > 1 and node.value.__class__ is dict:
                self.refuse.duplicate_key(key, lines, self.marks[*node.path, key], (*self._path(), key))
        self._add(node, start, closed.anchor)

    def _alias(self, event: Event) -> None:
        name = event.anchor
        node = self._anchors.get(name)
        if node is None:
            message = f"the alias *{visible_text(name, 40)} has no complete anchor before it"
            fix = f'for the text, write it in quotes: "*{visible_text(name, 40)}"'
            self.refuse.give_up(ids.ALIAS, message, event, fix, self._path())
        if self._awaits_key():
            self.refuse.key_not_text(event, self._path(), None)
            self._open[-1].key_event = event
            return
        self._refuse_depth(event, node.height)
        self._count(event, node.size)
        here = self._node(event)
        here.value, here.size, here.height = copy.deepcopy(node.value), node.size, node.height
        for path in below(node.value, node.path):
            to = (*here.path, *path[len(node.path) :])
            if path in self.marks:  # the root and a key have none
                self.marks[to] = self.marks[path]
            if path in self.words:
                self.words.add(to)
        self._add(here, event, None)

    def _add(self, node: Node, event: Event, anchor: str | None) -> None:
        """Adds a complete value to the open list or mapping, or makes it the root."""
        if anchor:
            self._anchors[anchor] = node
        if not self._open:
            self.root, self.root_event = node, event
            self.marks[node.path] = self.page.mark(node.line, node.column, node.end)
            return
        parent = self._open[-1]
        whole = parent.node
        whole.size += node.size
        whole.height = max(whole.height, node.height + 1)
        if whole.value.__class__ is list:
            whole.value.append(node.value)
            line, column, end = node.line, node.column, node.end
        else:
            line, column, end = self._enter(parent, node)
        self.marks[node.path] = self.page.mark(line, column, end)
        if line == whole.line:
            whole.end = max(whole.end, end)

    def _enter(self, parent: _Open, node: Node) -> tuple[int, int, int]:
        """Adds key and value to the open mapping; returns the entry's line and column, and its end on that line."""
        event, key = parent.key_event, parent.key
        parent.key_event = parent.key = None
        assert event is not None
        start = self._node(event)
        line = start.line
        if key is not None:
            parent.lines.setdefault(key, []).append(line)
            parent.node.value[key] = node.value
        return line, start.column, node.end if node.line == line else self._after_colon(line, start.end)

    def _after_colon(self, line: int, column: int) -> int:
        text = self.page.lines[line]
        rest = text[column:].lstrip()
        return len(text) - len(rest) + 1 if rest.startswith(":") else column
