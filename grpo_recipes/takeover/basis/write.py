"""Writes the recipe's text: sections and keys in the format's order, with comments for emulated and refused keys."""

import json
import re
from collections.abc import Mapping
from typing import Any

from grpo_recipes.schemas.models import sections
from grpo_recipes.schemas.recipe import Recipe
from grpo_recipes.schemas.section import fields_by_key
from grpo_recipes.takeover.basis.draft import Draft, Row

# Anything that begins like a number, and all words that some reader takes for a value.
_PLAIN = re.compile(
    r"(?!(y|n|yes|no|on|off|true|false|null|none|nan|inf|infinity)$)(\.{0,2}/)?[a-z_][\w./@-]*", re.IGNORECASE
)


def recipe_text(draft: Draft, name: str, head: list[str]) -> str:
    """The text of a recipe. head: lines of the comment at the top."""
    lines = [f"# {line}".rstrip() for line in head]
    refused = [row for row in draft.rows if row.fate == "refused"]
    if refused:
        lines += ["#", "# Refused, so this is a different experiment until you replace each:"]
        lines += [f"#   {row.key}: {one_line(row.because)}" for row in refused]
    lines += ["recipe: 1", f"name: {scalar(name)}"]
    for key in ("description", "seed"):
        if key in draft.values:
            lines.append(f"{key}: {scalar(draft.values[key])}{_comment(draft, key)}")
    tree = tree_of(draft)
    lines.append("")
    for section in Recipe.model_fields:
        lines.extend(_section(section, tree.get(section, {}), draft, refused))
    return "\n".join(lines) + "\n"


def tree_of(draft: Draft) -> dict[str, dict[str, Any]]:
    """Section -> key -> value; deeper keys become maps."""
    tree: dict[str, dict[str, Any]] = {}
    for where, value in draft.values.items():
        section, _, rest = where.partition(".")
        if not rest:
            continue
        node = tree.setdefault(section, {})
        *above, last = rest.split(".", 1 if section == "launch" else -1)  # a variable's name may have dots
        for part in above:
            node = node.setdefault(part, {})
        node[last] = value
    return tree


def _section(section: str, block: Mapping[str, object], draft: Draft, refused: list[Row]) -> list[str]:
    """The lines of a section with keys, or of a list, with the refusals at each key."""
    at = [(row.where[0], f"# refused: {row.key}: {one_line(row.because)}") for row in refused if row.where]
    notes = [(where, note) for where, note in at if where.partition(".")[0] == section]
    items = draft.values.get(section) if section in ("rewards", "datasets") else None
    if not block and not isinstance(items, list):
        return [f"# {section}: {note.removeprefix('# ')}" for _, note in notes]
    lines = [f"{section}:{_comment(draft, section, inside=False)}"]
    lines += [f"  {note}" for where, note in notes if where.removeprefix(f"{section}.") not in block]
    if isinstance(items, list):
        return [*lines, *(f"  - {scalar(item)}" for item in items)]
    known = list(fields_by_key(sections()[section])) if section in sections() else []
    for key in sorted(block, key=lambda key: known.index(key) if key in known else len(known)):
        where = f"{section}.{key}"
        lines += [f"  {note}" for at_key, note in notes if at_key == where]
        lines.append(f"  {key}: {scalar(block[key])}{_comment(draft, where)}")
    return lines


def _comment(draft: Draft, where: str, *, inside: bool = True) -> str:
    """The comment of a key; with `inside`, those of the keys in it, too."""
    texts = [text for key, text in draft.comments.items() if key == where or (inside and key.startswith(f"{where}."))]
    return f"  # {one_line('; '.join(texts))}" if any(texts) else ""


def one_line(text: str, limit: int = 160) -> str:
    """A text on one line, short enough for a comment."""
    line = "".join(sign if sign.isprintable() else " " for sign in " ".join(text.split()))
    return line if len(line) <= limit else f"{line[: limit - 3]}..."


def scalar(value: object) -> str:
    """A value in YAML's flow style, which the strict reader reads back to the same value."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{scalar(str(key))}: {scalar(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(scalar, value)) + "]"
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) else json.dumps(value, ensure_ascii=False)
    return json.dumps(value)
