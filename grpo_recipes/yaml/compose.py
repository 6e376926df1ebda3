"""Combines a recipe with its parents and overrides into one set of values, each with its origin."""

import copy
import functools
import os
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar, cast

from grpo_recipes.contract.findings.finding import Finding, Mark, Patch, Path, value_at
from grpo_recipes.yaml.load import Document, load_file, load_text
from grpo_recipes.yaml.merge import OVERRIDE_FILE, Tree, apply_override, lay_over, read_override
from grpo_recipes.yaml.page import visible_text
from grpo_recipes.yaml.parents import Place, parent_place

_Asked = TypeVar("_Asked", bound=Callable[..., Any])


class Source(NamedTuple):
    """A recipe's merged values, without `extends`.

    file: the recipe; files: it and its parents, nearest first, as marks name them.
    marks: in the file that set each value; Mark.file is "--set" for an override, whose text is line_text. words: as in
    Document. folders: of the files named "grpo-recipes:NAME" instead of by path. formats: each file's format version
    with its mark, nearest first.
    """

    file: str
    files: tuple[str, ...]
    values: dict[str, object]
    marks: dict[Path, Mark]
    words: frozenset[Path]
    folders: Mapping[str, str] = MappingProxyType({})
    formats: tuple[tuple[object, Mark], ...] = ()

    def mark(self, path: Path) -> Mark | None:
        """The mark of the path, or of its nearest marked parent."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.marks:
                return self.marks[path[:length]]
        return None

    def what_it_overrides(self, path: Path, other: Path) -> str:
        """What a parent of the file that wrote a path sets under a different name for it, "" if none does."""
        mark, above = self.mark(path), self.marks.get(other)
        if mark is None or above is None or OVERRIDE_FILE in (mark.file, above.file):
            return ""
        if self.files.index(mark.file) >= self.files.index(above.file):
            return ""
        value = value_at(self.values, other)
        return f"{above.file}:{above.line} sets {visible_text(str(value))}, which {mark.file} overrides"

    def is_override(self, path: Path) -> bool:
        """Whether an override wrote it: it replaces what a file says, so to patch the file has no effect."""
        mark = self.mark(path)
        return mark is not None and mark.file == OVERRIDE_FILE

    def directory(self, path: Path) -> str:
        """The absolute directory to which a relative path written at `path` is relative.

        It is that of the file that wrote the value; the current directory for an override.
        """
        mark = self.mark(path)
        if self.is_override(path):
            return os.getcwd()
        name = self.file if mark is None else mark.file
        return os.path.abspath(self.folders[name]) if name in self.folders else os.path.dirname(os.path.abspath(name))


def compose(
    file: str, overrides: Sequence[str] = (), content: str | None = None
) -> tuple[Source | None, list[Finding]]:
    """Reads a recipe, merges it over its parents and applies the overrides in order.

    content: replaces the file's own text. Despite findings there is a source if every file could be read; an override
    that cannot be applied is left out. None if a file is missing or cannot be read completely.
    """
    chain, findings = _chain(file, content)
    read = [read_override(text) for text in overrides]
    for _, problems in read:
        findings += problems
    if chain is None:
        return None, findings
    tree = _merge(chain)
    for override, _ in read:
        refused = apply_override(tree, override) if override is not None else None
        if refused is not None:
            findings.append(refused)
    return _source(chain, tree), [*findings, *tree.findings]


def parent_of(source: Source) -> tuple[str, Source] | None:
    """The recipe's `extends` and the parent it names, None without one; rereads the files."""
    chain, _ = _chain(source.file, None)
    if chain is None or len(chain) == 1:
        return None
    return chain[0].extends, _source(chain[1:], _merge(chain[1:]))


class _Link(NamedTuple):
    """One file of a chain, with `extends` removed from its document."""

    place: Place
    document: Document
    extends: str = ""


def _merge(chain: Sequence[_Link]) -> Tree:
    tree = Tree({}, {}, set(), [])
    for link in reversed(chain):
        lay_over(tree, Tree(link.document.values, link.document.marks, set(link.document.words), []))
    return tree


def _source(chain: Sequence[_Link], tree: Tree) -> Source:
    places = [link.place for link in chain]
    named = {file.name: os.path.dirname(file.path) for file in places if file.name != file.path}
    files = tuple(file.name for file in places)
    documents = [link.document for link in chain if ("recipe",) in link.document.marks]
    formats = tuple((document.values["recipe"], document.marks["recipe",]) for document in documents)
    return Source(files[0], files, tree.values, tree.marks, frozenset(tree.words), named, formats)


def _chain(file: str, text: str | None) -> tuple[list[_Link] | None, list[Finding]]:
    """The recipe and its parents, nearest first; None if one is missing. text: the recipe's, None reads the file."""
    chain: list[_Link] = []
    findings: list[Finding] = []
    origin = Place(file, file)
    mark: Mark | None = None
    while True:
        read = text is None or chain
        document, problems = load_file(origin.path, origin.name) if read else load_text(str(text), file)
        findings += [f if f.mark or not mark else f._replace(mark=mark, key="extends") for f in problems]
        if document is None:
            return None, findings
        mark = document.marks.pop(("extends",), None)
        written = document.values.pop("extends", None)
        chain.append(_Link(origin, document, str(written or "")))
        if mark is None or written is None:
            return chain, findings
        parent = parent_place([link.place for link in chain], written, mark)
        if isinstance(parent, Finding):
            return None, [*findings, parent]
        origin = parent


def once_for_a_source(answer: _Asked) -> _Asked:
    """Caches a function of a source and hashable arguments, for the newest source only.

    Exceptions are not cached. Callers must not modify the results.
    """
    newest: list[Source] = []
    known: dict[tuple[Hashable, ...], Any] = {}

    @functools.wraps(answer)
    def answer_once(source: Source, *words: Hashable) -> Any:
        if not newest or newest[0] is not source:
            known.clear()
            newest[:] = [source]
        if words not in known:
            known[words] = answer(source, *words)
        return known[words]

    return cast(_Asked, answer_once)


def with_patches(values: Mapping[str, object], patches: Iterable[Patch]) -> dict[str, Any]:
    """A copy of the values with all patches applied; missing maps on the way are made, list items must exist."""
    result: dict[str, Any] = copy.deepcopy(dict(values))
    for patch in patches:
        node: Any = result
        for part in patch.path[:-1]:
            if isinstance(node, dict) and node.get(str(part)) is None:
                if patch.remove:
                    break
                node[str(part)] = {}
            node = node[part]
        else:
            _apply(node, patch)
    return result


def _apply(node: Any, patch: Patch) -> None:
    """Applies a patch to the map or list that holds the last part of its path."""
    if not patch.remove:
        node[patch.path[-1]] = copy.deepcopy(patch.value)
    elif isinstance(node, dict):
        node.pop(patch.path[-1], None)
    else:
        del node[patch.path[-1]]
