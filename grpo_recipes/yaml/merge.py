"""Values laid over values: maps merge, lists replace, null removes; marks and words follow."""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import Any

from grpo_recipes.finding import Mark, Path


@dataclass(frozen=True, slots=True)
class Tree:
    """Values with marks and words, changed in place while files and overrides are laid over each other."""

    values: dict[str, object]
    marks: dict[Path, Mark]
    words: set[Path]


def lay_over(tree: Tree, above: Tree) -> None:
    """Merges `above` into `tree`; what `above` writes wins. The root's mark is that of `above`."""
    tree.marks[()] = above.marks[()]
    for key, value in above.values.items():
        put(tree.values, key, value, (key,), tree, above.marks, above.words)


def put(
    container: Any,
    key: str | int,
    value: object,
    path: Path,
    tree: Tree,
    marks: Mapping[Path, Mark],
    words: Set[Path],
) -> None:
    """Lays one value with its marks over container[key], which stands at `path` of the tree."""
    is_mapping = isinstance(container, dict)
    old = container.get(key) if is_mapping else container[key]
    if is_mapping and value is None and old is not None:
        _forget(old, path, tree)
        del container[key]
        return
    if isinstance(old, dict) and isinstance(value, dict):
        tree.marks[path] = marks[path]
        for name, below in value.items():
            put(old, name, below, (*path, name), tree, marks, words)
        return
    _forget(old, path, tree)
    container[key] = value
    for below_path in _paths(value, path):
        tree.marks[below_path] = marks[below_path]
        if below_path in words:
            tree.words.add(below_path)


def _forget(value: object, path: Path, tree: Tree) -> None:
    for below in _paths(value, path):
        tree.marks.pop(below, None)
        tree.words.discard(below)


def _paths(value: object, path: Path) -> Iterator[Path]:
    """The path and all below it."""
    yield path
    if isinstance(value, dict):
        for key, below in value.items():
            yield from _paths(below, (*path, key))
    elif isinstance(value, list):
        for index, below in enumerate(value):
            yield from _paths(below, (*path, index))
