"""A recipe with its parents and overrides as one set of values, each with the place that wrote it."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

from grpo_recipes.finding import Finding, Mark, Path
from grpo_recipes.yaml import ids
from grpo_recipes.yaml.load import Document, load_file
from grpo_recipes.yaml.merge import Tree, lay_over
from grpo_recipes.yaml.override import OVERRIDE_FILE, apply_override, read_override
from grpo_recipes.yaml.page import shown

MAX_PARENTS = 8


@dataclass(frozen=True, slots=True)
class Source:
    """A recipe's merged values, without `extends`.

    file: the recipe; files: it and its parents, nearest first.
    marks: of the file that won each value; Mark.file is "--set" for an override, whose text is line_text.
    words: as in Document.
    """

    file: str
    files: tuple[str, ...]
    values: dict[str, object]
    marks: dict[Path, Mark]
    words: frozenset[Path]

    def mark(self, path: Path) -> Mark | None:
        """The mark of the path, or of its nearest marked parent."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.marks:
                return self.marks[path[:length]]
        return None

    def directory(self, path: Path) -> str:
        """The absolute directory that a relative path written at `path` starts from.

        It is that of the file that wrote the value; the current directory for an override.
        """
        mark = self.mark(path)
        if mark is not None and mark.file == OVERRIDE_FILE:
            return os.getcwd()
        return os.path.dirname(os.path.abspath(self.file if mark is None else mark.file))


def compose(file: str, overrides: Sequence[str] = ()) -> tuple[Source | None, list[Finding]]:
    """Reads a recipe, merges it over its parents and applies the overrides in order.

    With findings there is a source all the same where every file could be read; an override that cannot be
    applied is left out. None when a file is missing or cannot be read to its end.
    """
    documents, findings = _chain(file)
    read = [read_override(text) for text in overrides]
    for _, found in read:
        findings += found
    if documents is None:
        return None, findings
    nearest, *parents = [Tree(d.values, d.marks, set(d.words)) for d in documents]
    tree = nearest
    if parents:
        tree = parents[-1]
        for above in [*reversed(parents[:-1]), nearest]:
            lay_over(tree, above)
    for override, _ in read:
        refused = apply_override(tree, override) if override is not None else None
        if refused is not None:
            findings.append(refused)
    files = tuple(document.file for document in documents)
    return Source(file, files, tree.values, tree.marks, frozenset(tree.words)), findings


def _chain(file: str) -> tuple[list[Document] | None, list[Finding]]:
    """The recipe and its parents, nearest first, their `extends` taken out; None when one is missing."""
    documents: list[Document] = []
    findings: list[Finding] = []
    seen: list[str] = []
    mark: Mark | None = None
    while True:
        document, found = load_file(file)
        findings += [f if f.mark or not mark else replace(f, mark=mark, key="extends") for f in found]
        if document is None:
            return None, findings
        documents.append(document)
        seen.append(os.path.realpath(file))
        mark = document.marks.get(("extends",))
        parent = document.values.pop("extends", None)
        document.marks.pop(("extends",), None)
        if mark is None or parent is None:
            return documents, findings
        refused = _refused_parent(parent, documents, seen, mark)
        if refused is not None:
            return None, [*findings, refused]
        file = _beside(file, str(parent))


def _beside(file: str, parent: str) -> str:
    return os.path.join(os.path.dirname(file), parent)


def _refused_parent(parent: object, documents: list[Document], seen: list[str], mark: Mark) -> Finding | None:
    if not isinstance(parent, str) or not parent or "\0" in parent:
        message, because, fix = (
            "extends does not name a file",
            "it takes the path of one file",
            "extends: base.yaml",
        )
        return Finding(ids.EXTENDS_VALUE, "error", message, "extends", mark, (because,), fix)
    place = os.path.realpath(_beside(documents[-1].file, parent))
    if place in seen:
        names = [document.file for document in documents[seen.index(place) :]]
        chain = " -> ".join(shown(os.path.basename(name), 20) for name in [*names[:4], names[0]])
        message = "the files extend each other in a circle" if len(names) > 1 else "the file extends itself"
        fix = "remove one extends of the circle"
        return Finding(ids.EXTENDS_CYCLE, "error", message, "extends", mark, (f"the circle is {chain}",), fix)
    if len(documents) > MAX_PARENTS:
        message = f"more than {MAX_PARENTS} files are chained by extends"
        because = f"{shown(documents[0].file)} reaches this file after {MAX_PARENTS} others"
        fix = "put some of them into one file"
        return Finding(ids.EXTENDS_TOO_DEEP, "error", message, "extends", mark, (because,), fix)
    return None
