"""Writes the recipe's text: sections and keys in the format's order, with comments for emulated and refused keys."""

import json
import re
from collections.abc import Mapping

from grpo_recipes.schemas.models import sections
from grpo_recipes.schemas.recipe import Recipe
from grpo_recipes.schemas.section import written_fields
from grpo_recipes.takeover.basis.draft import Draft, Row

# Anything that begins like a number, and all words that some reader takes for a value.
_PLAIN = re.compile(
    r"(?!(y|n|yes|no|on|off|true|false|null|none|nan|inf|infinity)$)(\.{0,2}/)?[a-z_][\w./@-]*", re.IGNORECASE
)


def recipe_text(draft: Draft, name: str, head: list[str]) -> str:
    """The text of a recipe. head: lines of the comment at the top."""
    lines = [f"# {line}".rstrip() for line in head]
    refused = [row for row in draft.rows if row.fate == "refused"]
    lines.extend(_refusals(refused))
    lines.extend(["recipe: 1", f"name: {scalar(name)}"])
    for key in ("description", "seed"):
        if key in draft.values:
            lines.append(_entry(key, draft.values[key], draft.comments.get(key)))
    tree = tree_of(draft)
    lines.append("")
    for section in Recipe.model_fields:
        lines.extend(_section(section, tree, draft, refused))
    return "\n".join(lines) + "\n"


def _refusals(refused: list[Row]) -> list[str]:
    if not refused:
        return []
    lines = ["#", "# Refused, so this is a different experiment until you replace each:"]
    return [*lines, *(f"#   {row.key}: {one_line(row.because)}" for row in refused)]


def tree_of(draft: Draft) -> dict[str, dict[str, object]]:
    """Section -> key -> value; deeper keys become maps."""
    tree: dict[str, dict[str, object]] = {}
    for where, value in draft.values.items():
        section, _, rest = where.partition(".")
        if not rest or section == "rewards":
            continue
        node = tree.setdefault(section, {})
        parts = _parts(section, rest)
        for part in parts[:-1]:
            inner = node.setdefault(part, {})
            assert isinstance(inner, dict)
            node = inner
        node[parts[-1]] = value
    return tree


def _parts(section: str, rest: str) -> list[str]:
    if section == "launch" and rest.startswith("environment."):
        return ["environment", rest.removeprefix("environment.")]
    return rest.split(".")


def _section(section: str, tree: Mapping[str, dict[str, object]], draft: Draft, refused: list[Row]) -> list[str]:
    notes = [row for row in refused if row.where and row.where[0].partition(".")[0] == section]
    if section == "rewards" or (section == "datasets" and section in draft.values):
        return _items(section, draft, notes)
    block = tree.get(section)
    if not block:
        return [f"# {section}: {_note(row)}" for row in notes]
    comment = draft.comments.get(section)
    lines = [f"{section}:" + (f"  # {one_line(comment)}" if comment else "")]
    told = {row.where[0] for row in notes} & {f"{section}.{key}" for key in block}
    lines.extend(f"  # {_note(row)}" for row in notes if row.where[0] not in told)
    for key in _in_order(section, block):
        where = f"{section}.{key}"
        lines.extend(f"  # {_note(row)}" for row in notes if row.where[0] == where)
        lines.append("  " + _entry(key, block[key], _comment(draft, where)))
    return lines


def _comment(draft: Draft, where: str) -> str | None:
    """The comment of a key, or of the keys in it."""
    texts = [text for one, text in draft.comments.items() if one == where or one.startswith(f"{where}.")]
    return "; ".join(texts) or None


def _items(section: str, draft: Draft, notes: list[Row]) -> list[str]:
    comment = draft.comments.get(section)
    lines = [f"{section}:" + (f"  # {one_line(comment)}" if comment else "")]
    lines.extend(f"  # {_note(row)}" for row in notes)
    items = draft.values[section]
    assert isinstance(items, list)
    return [*lines, *(f"  - {scalar(item)}" for item in items)]


def _note(row: Row) -> str:
    return f"refused: {row.key}: {one_line(row.because)}"


def _in_order(section: str, block: Mapping[str, object]) -> list[str]:
    known = [name for name in written_fields(sections()[section]) if name in block] if section in sections() else []
    return [*known, *(key for key in block if key not in known)]


def _entry(key: str, value: object, comment: str | None) -> str:
    return f"{key}: {scalar(value)}" + (f"  # {one_line(comment)}" if comment else "")


def one_line(text: str, limit: int = 160) -> str:
    """A text on one line, short enough for a comment."""
    line = "".join(one if one.isprintable() else " " for one in " ".join(text.split()))
    return line if len(line) <= limit else f"{line[: limit - 3]}..."


def scalar(value: object) -> str:
    """A value in YAML's flow style, which the strict reader reads back to the same value."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{scalar(str(key))}: {scalar(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(scalar(one) for one in value) + "]"
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) else json.dumps(value, ensure_ascii=False)
    return json.dumps(value)
