"""Values laid over values: maps merge, lists replace or are extended, null removes; marks and words follow."""

from collections.abc import Iterator, Mapping, Set
from typing import Any, NamedTuple

from grpo_recipes.contract.findings.finding import Finding, Mark, Path, dotted
from grpo_recipes.yaml import ids
from grpo_recipes.yaml.page import shown, single_quoted

EXTEND = "extend"


class Tree(NamedTuple):
    """Values with marks and words, changed in place while files and overrides are laid over each other.

    findings: of lists that should be extended and are not there.
    """

    values: dict[str, object]
    marks: dict[Path, Mark]
    words: set[Path]
    findings: list[Finding]


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
    """Lays one value with its marks over container[key], which stands at `path` of the tree.

    `{extend: [...]}` adds to the list that is there; below a list's items it is a map like any other.
    """
    is_mapping = isinstance(container, dict)
    old = container.get(key) if is_mapping else container[key]
    if is_mapping and value is None and old is not None:
        _forget(old, path, tree)
        del container[key]
        return
    in_maps = is_mapping and not any(isinstance(part, int) for part in path)
    if in_maps and _is_extension(value, old):
        _extend(container, key, value, path, tree, marks, words)  # type: ignore[arg-type]
        return
    if isinstance(value, dict) and (in_maps or isinstance(old, dict)):
        if not isinstance(old, dict):
            _forget(old, path, tree)
            old = container[key] = {}
        _take_mark(path, path, tree, marks, words)
        for name, below in value.items():
            put(old, name, below, (*path, name), tree, marks, words)
        return
    _forget(old, path, tree)
    container[key] = value
    for below_path in _paths(value, path):
        _take_mark(below_path, below_path, tree, marks, words)


def _is_extension(value: object, old: object) -> bool:
    """Whether a value is `{extend: [...]}`; over a list also with another value than a list, which is then refused."""
    return (
        isinstance(value, dict)
        and value.keys() == {EXTEND}
        and (isinstance(value[EXTEND], list) or isinstance(old, list))
    )


def _extend(
    container: dict[str, object],
    key: str,
    value: dict[str, object],
    path: Path,
    tree: Tree,
    marks: Mapping[Path, Mark],
    words: Set[Path],
) -> None:
    """Adds the items to the list; where there is none a finding is made, and the items are the list."""
    old, more = container.get(key), value[EXTEND]
    if not isinstance(more, list):
        tree.findings.append(_not_items(path, more, marks[path]))
        return
    if not isinstance(old, list):
        tree.findings.append(_no_list(path, old, marks[path]))
        _forget(old, path, tree)
        old = []
    container[key] = [*old, *more]
    _take_mark(path, path, tree, marks, words)
    for index, item in enumerate(more):
        for below in _paths(item, (*path, EXTEND, index)):
            place = (*path, len(old) + index, *below[len(path) + 2 :])
            _take_mark(place, below, tree, marks, words)


def _no_list(path: Path, old: object, mark: Mark) -> Finding:
    name = shown(dotted(path), 80)
    there = "nothing is written there" if old is None else f"there stands {shown(str(old))}"
    because = (f"extend adds to the list of a file named by extends; {there}",)
    fix = f"{shown(str(path[-1]), 80)}: [...]"
    return Finding(ids.EXTEND_NO_LIST, "error", f"{name} has no list to extend", dotted(path), mark, because, fix)


def _not_items(path: Path, items: object, mark: Mark) -> Finding:
    message = f"{shown(dotted(path), 80)} is extended with something else than a list"
    because = (f"extend takes the items to add; there stands {shown(str(items))}",)
    is_open = items is None or isinstance(items, dict)
    item = "..." if is_open else single_quoted(shown(items)) if isinstance(items, str) else str(items)
    fix = f"{shown(str(path[-1]), 80)}: {{extend: [{item}]}}"
    return Finding(ids.EXTEND_NO_LIST, "error", message, dotted(path), mark, because, fix)


def _take_mark(place: Path, written: Path, tree: Tree, marks: Mapping[Path, Mark], words: Set[Path]) -> None:
    tree.marks[place] = marks[written]
    if written in words:
        tree.words.add(place)


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
