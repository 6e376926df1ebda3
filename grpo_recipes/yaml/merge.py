"""Merges values over values: maps merge, lists are replaced or extended, null removes; marks and words follow."""

import json
import re
from typing import Any, NamedTuple

from grpo_recipes.contract.findings.finding import Finding, Mark, Path, below, path_text, value_at
from grpo_recipes.yaml import ids
from grpo_recipes.yaml.ids import refusal
from grpo_recipes.yaml.load import Value, read_value
from grpo_recipes.yaml.page import Page, printable, visible_text

EXTEND = "extend"


class Tree(NamedTuple):
    """Values with marks and words, changed in place while files and overrides are merged.

    findings: about lists to extend that do not exist.
    """

    values: dict[str, object]
    marks: dict[Path, Mark]
    words: set[Path]
    findings: list[Finding]


def lay_over(tree: Tree, above: Tree) -> None:
    """Merges `above` into `tree`; what `above` writes wins. The root's mark is that of `above`."""
    tree.marks[()] = above.marks[()]
    for key, value in above.values.items():
        put(tree.values, key, value, (key,), tree, above)


def put(container: Any, key: str | int, value: object, path: Path, tree: Tree, above: Tree | Value) -> None:
    """Merges one value of `above` into container[key], which is at `path` of the tree.

    `{extend: [...]}` adds to the existing list; inside list items it is an ordinary map.
    """
    is_mapping = isinstance(container, dict)
    old = container.get(key) if is_mapping else container[key]
    if is_mapping and value is None and old is not None:
        _forget(old, path, tree)
        del container[key]
        return
    in_maps = is_mapping and not any(isinstance(part, int) for part in path)
    if in_maps and _is_extension(value, old):
        _extend(container, key, value, path, tree, above)  # type: ignore[arg-type]
        return
    if isinstance(value, dict) and (in_maps or isinstance(old, dict)):
        if not isinstance(old, dict):
            _forget(old, path, tree)
            old = container[key] = {}
        _take_mark(path, path, tree, above)
        for name, inner in value.items():
            put(old, name, inner, (*path, name), tree, above)
        return
    _forget(old, path, tree)
    container[key] = value
    for nested in below(value, path):
        _take_mark(nested, nested, tree, above)


def _is_extension(value: object, old: object) -> bool:
    """Whether a value is `{extend: [...]}`; over a list also with a value other than a list, which is then refused."""
    return (
        isinstance(value, dict)
        and value.keys() == {EXTEND}
        and (isinstance(value[EXTEND], list) or isinstance(old, list))
    )


def _extend(
    container: dict[str, object], key: str, value: dict[str, object], path: Path, tree: Tree, above: Tree | Value
) -> None:
    """Adds the items to the list; if there is none, adds a finding and uses the items as the list."""
    old, more = container.get(key), value[EXTEND]
    if not isinstance(more, list):
        because = f"extend takes a list of items to add, not {visible_text(str(more))}"
        tree.findings.append(_not_extended(path, "is extended with no list", "{extend: [...]}", above, because))
        return
    if not isinstance(old, list):
        there = "no parent has one" if old is None else f"its value is {visible_text(str(old))}"
        because = f"extend adds to the list of a file named by extends; {there}"
        tree.findings.append(_not_extended(path, "has no list to extend", "[...]", above, because))
        _forget(old, path, tree)
        old = []
    container[key] = [*old, *more]
    _take_mark(path, path, tree, above)
    for index, item in enumerate(more):
        for written in below(item, (*path, EXTEND, index)):
            target = (*path, len(old) + index, *written[len(path) + 2 :])
            _take_mark(target, written, tree, above)


def _not_extended(path: Path, problem: str, value: str, above: Tree | Value, because: str) -> Finding:
    fix = f"{visible_text(str(path[-1]), 80)}: {value}"
    message = f"{visible_text(path_text(path), 80)} {problem}"
    return refusal(ids.EXTEND_NO_LIST, message, above.marks[path], fix, because, path)


def _take_mark(target: Path, written: Path, tree: Tree, above: Tree | Value) -> None:
    tree.marks[target] = above.marks[written]
    if written in above.words:
        tree.words.add(target)


def _forget(value: object, path: Path, tree: Tree) -> None:
    for nested in below(value, path):
        tree.marks.pop(nested, None)
        tree.words.discard(nested)


OVERRIDE_FILE = "--set"
MAX_DEPTH = 32

_KEY = r"[^\s.\[\]=:,{}'\"]+"
_PATH = rf"{_KEY}(?:\.{_KEY}|\[[0-9]{{1,6}}\])*"
_PART = rf"\[([0-9]+)\]|\.?({_KEY})"


class Override(NamedTuple):
    """A path, its value and the mark of the whole override."""

    path: Path
    value: Value
    mark: Mark


def read_override(text: str) -> tuple[Override | None, list[Finding]]:
    """Reads one `--set` text; its value is read as strictly as a file's, but a template needs no quotes."""
    written, equals, value = text.partition("=")
    whole = Page(OVERRIDE_FILE, text, [printable(text)])
    if not equals or not re.fullmatch(_PATH, written) or not written.isprintable():
        what = f"{visible_text(written, 40)} is not a key" if equals else f"{visible_text(text, 40)} has no ="
        return None, [refusal(ids.OVERRIDE_SYNTAX, what, whole.mark(0, 0, len(written)), "key=value")]
    path: Path = tuple(int(match[1]) if match[1] else match[2] for match in re.finditer(_PART, written))
    mark = whole.mark(0, 0, len(text.rstrip()))
    if len(path) > MAX_DEPTH:
        because = f"it has {len(path):,} parts; a recipe needs fewer than ten"
        return None, [refusal(ids.OVERRIDE_PLACE, f"more than {MAX_DEPTH} keys in a row", mark, "key=value", because)]
    if path[0] == "extends":
        because = "a parent's place is relative to the file that names it"
        fix = "write extends into the recipe"
        return None, [refusal(ids.OVERRIDE_PLACE, "extends cannot be overridden", mark, fix, because, path[:1])]
    if value.lstrip().startswith(("{{", "{%")):  # a template, which is text; shells remove the quotes that YAML needs
        value = json.dumps(value.strip(), ensure_ascii=False)
    read, findings = read_value(Page(OVERRIDE_FILE, value, [printable(value)], written + "="), path)
    findings = [finding if finding.key else finding._replace(key=path_text(path)) for finding in findings]
    if read is None:
        return None, findings
    return Override(path, Value(read.value, {**read.marks, path: mark}, read.words), mark), findings


def apply_override(tree: Tree, override: Override) -> Finding | None:
    """Applies the override to the tree as a child file would; null removes a key, and is kept in a list.

    Missing mappings on the way are made; a missing list or item is a finding and changes nothing.
    """
    inner: object = tree.values
    for depth, part in enumerate(override.path):
        is_there = part < len(inner) if isinstance(part, int) and isinstance(inner, list) else False
        if not is_there and not (isinstance(part, str) and isinstance(inner, dict)):
            return _no_place(inner, override, depth)
        inner = value_at(inner, (part,))
        inner = {} if inner is None else inner
    container: Any = tree.values
    for depth, part in enumerate(override.path[:-1], 1):
        if value_at(container, (part,)) is None:
            container[part] = {}
        tree.marks.setdefault(override.path[:depth], override.mark)
        container = container[part]
    put(container, override.path[-1], override.value.value, override.path, tree, override.value)
    return None


def _no_place(container: object, override: Override, depth: int) -> Finding:
    """The finding for a part of a path that a list, a mapping or a value does not have.

    The fix has an index: `rewards.1.weight` means the second item; `rewards.weight` names none, and gets the first.
    """
    path, part = override.path, override.path[depth]
    above, is_list = path_text(path[:depth]), isinstance(container, list)
    kind = "a mapping" if isinstance(container, dict) else f"the single value {visible_text(str(container), 40)}"
    fix = f"{above}=[...]" if is_list or isinstance(part, int) else f"{above}={{{part}: ...}}"
    if isinstance(container, list):
        kind = f"a list of {len(container)} items, counted from 0"
        is_index = isinstance(part, int) or re.fullmatch("[0-9]{1,6}", part) is not None
        index = min(int(part), len(container) - 1) if is_index else 0
        if container:
            meant = (*path[:depth], index, *path[depth + is_index :])
            fix = f"{path_text(meant)}={override.mark.line_text.partition('=')[2]}"
    named = f"{'item' if isinstance(part, int) else 'key'} {visible_text(str(part), 40)}"
    message = f"{visible_text(above, 40)} has no {named}"
    return refusal(ids.OVERRIDE_PLACE, message, override.mark, visible_text(fix, 100), f"it is {kind}", path)
