"""A recipe's text with the fixes of findings in it; comments, order and layout stay."""

import io
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from typing import Any

from grpo_recipes.contract.findings.finding import Patch, Path
from grpo_recipes.yaml.load import load_text
from grpo_recipes.yaml.patch import patched
from grpo_recipes.yaml.scalars import WORDS, read_plain

WIDEST_LINE = 4096


class NotRewritten(Exception):
    """The patched text would not say what the patches say."""


def rewritten(text: str, patches: Iterable[Patch], file: str = "") -> str:
    """The text with every patch applied; only the lines that a patch changes differ from it.

    Raises NotRewritten where the text cannot be read, a patch is for a list item that it does not have, or the new text
    would not mean what was asked for.
    """
    from ruamel.yaml.error import YAMLError

    line_break = "\r\n" if "\r\n" in text else "\n"
    plain = text.replace("\r\n", "\n")
    ordered = list(_last_items_first(patches))
    try:
        before, after = _dumped(plain, ()), _dumped(plain, ordered)
        result = _carried_over(plain, before, after)
        _check(result, plain, ordered, file)
    except (YAMLError, KeyError, IndexError, TypeError) as error:
        raise NotRewritten(str(error)) from error
    return result.replace("\n", line_break)


def _dumped(text: str, patches: Iterable[Patch]) -> str:
    """What ruamel.yaml writes for the text after patching it."""
    from ruamel.yaml import YAML

    reader = YAML()
    reader.preserve_quotes = True
    reader.allow_duplicate_keys = True
    reader.width = WIDEST_LINE
    reader.indent(mapping=2, sequence=4, offset=2)
    document = reader.load(text)
    waiting = list(patches)
    while waiting:
        patch = waiting.pop(0)
        if waiting and _is_renaming(patch, waiting[0]) and _rename(document, patch.path, waiting[0].path[-1]):
            waiting.pop(0)
        else:
            _apply(document, patch)
    stream = io.StringIO()
    reader.dump(document, stream)
    return stream.getvalue()


def _last_items_first(patches: Iterable[Patch]) -> Iterator[Patch]:
    """Removals of list items after everything else, from the last item on, so that no index moves before its use."""
    ordered = list(patches)
    removals = [patch for patch in ordered if patch.remove and isinstance(patch.path[-1], int)]
    yield from (patch for patch in ordered if patch not in removals)
    yield from sorted(removals, key=lambda patch: int(patch.path[-1]), reverse=True)


def _is_renaming(removal: Patch, setting: Patch) -> bool:
    """Whether two patches give a key another name in the same map."""
    names = (removal.path[-1], setting.path[-1])
    return (
        removal.remove
        and not setting.remove
        and removal.path[:-1] == setting.path[:-1]
        and all(isinstance(name, str) for name in names)
    )


def _rename(document: Any, path: Path, name: object) -> bool:
    """Gives a key another name where it stands, with its value as it is written and its comments; whether it could."""
    from ruamel.yaml.comments import CommentedMap

    node = document
    for part in path[:-1]:
        if not isinstance(node, dict) or part not in node:
            return False
        node = node[part]
    old = path[-1]
    if not isinstance(node, CommentedMap) or old not in node or name in node:
        return False
    place, comments = list(node).index(old), node.ca.items.pop(old, None)
    node.insert(place, name, node.pop(old))
    if comments is not None:
        node.ca.items[name] = comments
    return True


def _apply(document: Any, patch: Patch) -> None:
    from ruamel.yaml.comments import CommentedMap

    node = document
    for part in patch.path[:-1]:
        _check_place(node, part)
        if isinstance(part, str) and node.get(part) is None:
            if patch.remove:
                return
            node[part] = CommentedMap()
        node = node[part]
    last = patch.path[-1]
    _check_place(node, last)
    if not patch.remove:
        node[last] = _value(patch.value)
    elif isinstance(last, int):
        del node[last]
    else:
        node.pop(last, None)


def _check_place(node: Any, part: str | int) -> None:
    """Raises TypeError for an item of a map: the list has more items than this file writes with extend."""
    if isinstance(part, int) and not isinstance(node, list):
        raise TypeError(f"item {part} is not written here as one of a list")


def _value(value: object) -> Any:
    """A value as ruamel.yaml is to write it: in quotes where a YAML reader could take it for something else."""
    from ruamel.yaml.comments import CommentedMap, CommentedSeq
    from ruamel.yaml.scalarstring import DoubleQuotedScalarString

    if isinstance(value, str):
        is_plain = value == "" or (value.lower() not in WORDS and read_plain(value) == value)
        return value if is_plain and value else DoubleQuotedScalarString(value)
    made: CommentedMap | CommentedSeq
    if isinstance(value, dict):
        made = CommentedMap((key, _value(each)) for key, each in value.items())
    elif isinstance(value, list | tuple):
        made = CommentedSeq(_value(each) for each in value)
    else:
        return value
    made.fa.set_flow_style()
    return made


def _carried_over(text: str, before: str, after: str) -> str:
    """The changes from `before` to `after` made to the text, which says what `before` says in its own layout.

    The text as it is dumped without a patch has the same lines in another layout; where it has not, the layout of
    `after` is taken.
    """
    old, dumped, new = text.splitlines(), before.splitlines(), after.splitlines()
    if len(old) != len(dumped):
        return after
    lines: list[str] = []
    for kind, first, last, new_first, new_last in SequenceMatcher(None, dumped, new, autojunk=False).get_opcodes():
        if kind == "equal":
            lines += old[first:last]
        else:
            place = first if first < last else first - 1  # lines that are only added stand as the one before them
            moved = _indentation(old[place]) - _indentation(dumped[place]) if place >= 0 else 0
            lines += [_moved(line, moved) for line in new[new_first:new_last]]
    return "\n".join(lines) + "\n"


def _moved(line: str, columns: int) -> str:
    """The line further right; one of the top level stays there."""
    own = _indentation(line)
    return " " * max(0, own + columns) + line.lstrip(" ") if own and line.strip() else line


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _check(text: str, before: str, patches: Iterable[Patch], file: str) -> None:
    """Raises NotRewritten unless the text says what the old one says with every patch applied, and nothing else.

    A value that an alias repeats elsewhere would be another one there too.
    """
    found, old = load_text(text, file)[0], load_text(before, file)[0]
    if found is None or old is None or found.values != patched(old.values, patches):
        raise NotRewritten("the patched text would be read as something else")
