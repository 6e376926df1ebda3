"""Merges values over values: maps merge, lists are replaced or extended, null removes; marks and words follow."""

import json
import re
from typing import Any, NamedTuple

from grpo_recipes.contract.findings.finding import Finding, Mark, Path, below, path_text
from grpo_recipes.yaml import ids
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
        tree.findings.append(_not_items(path, more, above.marks[path]))
        return
    if not isinstance(old, list):
        tree.findings.append(_no_list(path, old, above.marks[path]))
        _forget(old, path, tree)
        old = []
    container[key] = [*old, *more]
    _take_mark(path, path, tree, above)
    for index, item in enumerate(more):
        for written in below(item, (*path, EXTEND, index)):
            target = (*path, len(old) + index, *written[len(path) + 2 :])
            _take_mark(target, written, tree, above)


def _no_list(path: Path, old: object, mark: Mark) -> Finding:
    name = visible_text(path_text(path), 80)
    there = "no parent has one" if old is None else f"its value is {visible_text(str(old))}"
    because = (f"extend adds to the list of a file named by extends; {there}",)
    fix = f"{visible_text(str(path[-1]), 80)}: [...]"
    return Finding(ids.EXTEND_NO_LIST, "error", f"{name} has no list to extend", path_text(path), mark, because, fix)


def _not_items(path: Path, items: object, mark: Mark) -> Finding:
    message = f"{visible_text(path_text(path), 80)} is extended with something other than a list"
    because = (f"extend takes a list of items to add, not {visible_text(str(items))}",)
    fix = f"{visible_text(str(path[-1]), 80)}: {{extend: [...]}}"
    return Finding(ids.EXTEND_NO_LIST, "error", message, path_text(path), mark, because, fix)


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
_FORM = "an override is key=value, as in grpo.beta=0.04 or rewards[0].weight=0.5"


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
        return None, [_refusal(ids.OVERRIDE_SYNTAX, what, "", whole.mark(0, 0, len(written)), _FORM, "key=value")]
    path: Path = tuple(int(match[1]) if match[1] else match[2] for match in re.finditer(_PART, written))
    mark = whole.mark(0, 0, len(text.rstrip()))
    if len(path) > MAX_DEPTH:
        because = f"it has {len(path):,} parts; a recipe needs fewer than ten"
        return None, [_refusal(ids.OVERRIDE_PLACE, f"more than {MAX_DEPTH} keys in a row", "", mark, because, _FORM)]
    if path[0] == "extends":
        because = "a parent's place is relative to the file that names it"
        fix = "write extends into the recipe"
        return None, [_refusal(ids.OVERRIDE_PLACE, "extends cannot be overridden", "extends", mark, because, fix)]
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
    finding = _place_finding(tree, override)
    if finding is not None:
        return finding
    container: Any = tree.values
    for depth, part in enumerate(override.path[:-1], 1):
        inner = container.get(part) if isinstance(container, dict) else container[part]
        if inner is None:
            inner = container[part] = {}
        tree.marks.setdefault(override.path[:depth], override.mark)
        container = inner
    put(container, override.path[-1], override.value.value, override.path, tree, override.value)
    return None


def _place_finding(tree: Tree, override: Override) -> Finding | None:
    container: object = tree.values
    for depth, part in enumerate(override.path):
        finding = _part_finding(container, part, override, depth)
        if finding is not None:
            return finding
        inner = container[part] if isinstance(container, list) and isinstance(part, int) else None
        inner = container.get(part) if isinstance(container, dict) else inner
        container = {} if inner is None else inner
    return None


def _part_finding(container: object, part: str | int, override: Override, depth: int) -> Finding | None:
    above, key = path_text(override.path[:depth]), path_text(override.path)
    if isinstance(part, str):
        if isinstance(container, dict):
            return None
        what = "a list" if isinstance(container, list) else f"the single value {visible_text(str(container), 40)}"
        fix = _in_item(part, override, depth, container) if isinstance(container, list) else f"{above}={{{part}: ...}}"
        message, because = f"{visible_text(above, 40)} has no keys", f"it is {what}"
    elif not isinstance(container, list):
        message, because = f"{visible_text(above, 40)} has no items", "it is not a list in the recipe"
        fix = f"{above}=[...]"
    elif part < len(container):
        return None
    else:
        count = len(container)
        message = f"{visible_text(above, 40)} has no item {part}"
        because = f"it has {count} item{'' if count == 1 else 's'}, counted from 0"
        fix = f"{above}[{count - 1}]" if count else f"{above}=[...]"
    return _refusal(ids.OVERRIDE_PLACE, message, key, override.mark, because, visible_text(fix, 100))


def _in_item(part: str, override: Override, depth: int, container: list[Any]) -> str:
    """The whole override with an index: `rewards.1.weight` means the second item, `rewards.weight` names none."""
    path = override.path
    number = int(part) if part.isascii() and part.isdigit() else None
    meant = (*path[:depth], 0, *path[depth:]) if number is None else (*path[:depth], number, *path[depth + 1 :])
    if number is not None and number >= len(container):
        return f"{path_text(path[:depth])}[{len(container) - 1}]" if container else f"{path_text(path[:depth])}=[...]"
    return f"{path_text(meant)}={override.mark.line_text.partition('=')[2]}"


def _refusal(rule: str, message: str, key: str, mark: Mark, because: str, fix: str) -> Finding:
    return Finding(rule, "error", message, visible_text(key, 200), mark, (because,), fix)
