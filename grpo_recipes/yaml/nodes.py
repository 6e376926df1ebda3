"""From the parser's events to nodes: without recursion, within limits, all refusals collected.

No object is ever built from a tag, and an alias is never expanded here: its size is only counted.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

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

from grpo_recipes.contract.findings.finding import Finding, Path
from grpo_recipes.yaml.page import Page
from grpo_recipes.yaml.refusals import STRING_TAG, Event, Refusals
from grpo_recipes.yaml.scalars import CURLY_QUOTES, WORDS, RefusedScalar, curly_quoted, read_plain

MAX_DEPTH = 32
MAX_VALUES = 20_000

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(slots=True, eq=False, repr=False)
class Node:
    """A value with its place, counted from 0; end: column after it on the line where it starts.

    items or entries are set for a list or a mapping, else value. size and height count the node itself and
    everything below, aliases expanded; a scalar has height 0, an empty list 1.
    """

    line: int
    column: int
    end: int
    value: object = None
    items: list["Node"] | None = None
    entries: dict[str, "Entry"] | None = None
    is_word: bool = False
    size: int = 1
    height: int = 0


@dataclass(slots=True, eq=False, repr=False)
class Entry:
    """A key of a mapping and its node. lines: of each time it is written, from 0."""

    line: int
    column: int
    end: int
    node: Node
    lines: list[int]


@dataclass(slots=True, eq=False, repr=False)
class _Open:
    """A list or mapping that is being read. key_event: of the key whose value comes next."""

    node: Node
    start: Event
    anchor: str | None
    key: str | None = None
    key_event: Event | None = None
    is_key: bool = False
    findings_before: int = 0


@dataclass(slots=True, eq=False, repr=False)
class Reader:
    """Reads one document. base: the path of its root, for an override."""

    page: Page
    base: Path = ()
    refuse: Refusals = field(init=False)
    root: Node | None = None
    root_event: Event | None = None
    _open: list[_Open] = field(default_factory=list)
    _anchors: dict[str, Node | None] = field(default_factory=dict)
    _values: int = 0
    _documents: int = 0

    def __post_init__(self) -> None:
        self.refuse = Refusals(self.page)

    def read(self) -> list[Finding]:
        """Reads the page into `root`; the findings are complete unless the parser had to stop.

        Raises yaml.YAMLError for a syntax error and GivenUp for a refusal after which nothing can be read.
        """
        for event in _events(self.page.text):
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

    def _path(self) -> Path:
        """The path of the value that is read now."""
        path: list[str | int] = []
        for parent in self._open:
            if parent.node.items is not None:
                path.append(len(parent.node.items))
            elif parent.key is not None:
                path.append(parent.key)
        return (*self.base, *path)

    def _awaits_key(self) -> bool:
        return bool(self._open) and self._open[-1].node.entries is not None and self._open[-1].key_event is None

    def _document(self, event: Event) -> None:
        self._documents += 1
        if self._documents > 1:
            self.refuse.second_document(event)

    def _count(self, event: Event, size: int = 1) -> None:
        self._values += size
        if self._values > MAX_VALUES:
            self.refuse.too_many_values(event, MAX_VALUES, has_aliases=bool(self._anchors))

    def _node(self, event: Event) -> Node:
        start, end = event.start_mark, event.end_mark
        line, column = start.line, start.column
        if end.line != line:
            return Node(line, column, len(self.page.lines[line].rstrip()))
        if end.column == column > 0 and event.__class__ is ScalarEvent:
            # An empty value has no width: it is shown at the `-` or `:` before it.
            return Node(line, column - 1, column)
        return Node(line, column, end.column)

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
            node.is_word = event.value.lower() in WORDS
            node.value = self._plain(event)
        if not event.value.isascii():
            self.refuse.invisible_in_text(event, self._path())
        self._add(node, event, event.anchor)

    def _plain(self, event: Event) -> object:
        value = read_plain(event.value)
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
            self.refuse.merge_key(event, self._path())
            parent.key = None
        elif not event.style and not isinstance(read_plain(event.value), str):
            self.refuse.key_not_text(event, self._path(), event.value)
        if event.anchor:
            self._anchors[event.anchor] = Node(0, 0, 0, value=event.value)

    def _start(self, event: Event) -> None:
        if len(self._open) >= MAX_DEPTH:
            self.refuse.too_deep(event, MAX_DEPTH)
        self._count(event)
        node = self._node(event)
        node.height = 1
        is_key = self._awaits_key()
        if event.__class__ is MappingStartEvent:
            node.entries = {}
        else:
            node.items = []
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
            self.refuse.unquoted_template(start, event, self._path(), text)
            node = Node(node.line, node.column, node.end, value=text)
        elif node.entries is not None:
            self._duplicates(node.entries)
        self._add(node, start, closed.anchor)

    def _duplicates(self, entries: dict[str, Entry]) -> None:
        path = self._path()
        for key, entry in entries.items():
            if len(entry.lines) > 1:
                self.refuse.duplicate_key(key, entry.lines, (entry.line, entry.column, entry.end), (*path, key))

    def _alias(self, event: Event) -> None:
        name = event.anchor
        node = self._anchors.get(name)
        if node is None:
            self.refuse.alias(event, self._path(), name, is_recursive=name in self._anchors)
        if self._awaits_key():
            self.refuse.key_not_text(event, self._path(), None)
            self._open[-1].key_event = event
            return
        if len(self._open) + node.height > MAX_DEPTH:
            self.refuse.too_deep(event, MAX_DEPTH)
        self._count(event, node.size)
        here = self._node(event)
        here.value, here.items, here.entries = node.value, node.items, node.entries
        here.is_word, here.size, here.height = node.is_word, node.size, node.height
        self._add(here, event, None)

    def _add(self, node: Node, event: Event, anchor: str | None) -> None:
        """Puts a complete node into the list or mapping that is open, or makes it the root."""
        if anchor:
            self._anchors[anchor] = node
        if not self._open:
            self.root, self.root_event = node, event
            return
        parent = self._open[-1]
        whole = parent.node
        whole.size += node.size
        whole.height = max(whole.height, node.height + 1)
        if whole.items is not None:
            whole.items.append(node)
            start, end = node.line, node.end
        else:
            start, end = self._enter(parent, node)
        if start == whole.line:
            whole.end = max(whole.end, end)

    def _enter(self, parent: _Open, node: Node) -> tuple[int, int]:
        """Enters key and node into the open mapping: the entry's line, and its end on that line."""
        event, key = parent.key_event, parent.key
        parent.key_event = parent.key = None
        entries = parent.node.entries
        assert event is not None and entries is not None
        place = self._node(event)
        line = place.line
        end = node.end if node.line == line else self._after_colon(line, place.end)
        if key is not None:
            lines = entries[key].lines if key in entries else []
            lines.append(line)
            entries[key] = Entry(line, place.column, end, node, lines)
        return line, end

    def _after_colon(self, line: int, column: int) -> int:
        text = self.page.lines[line]
        rest = text[column:].lstrip()
        return len(text) - len(rest) + 1 if rest.startswith(":") else column


def _events(text: str) -> Iterator[Event]:
    return yaml.parse(text, Loader=LOADER)
