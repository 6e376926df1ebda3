"""Lists everything that has a page: the sections of a recipe with their keys, and the ids by families."""

import textwrap
from collections import defaultdict
from collections.abc import Sequence

from grpo_recipes.explain.pages import known_ids
from grpo_recipes.schemas.export import field_docs
from grpo_recipes.schemas.models import sections
from grpo_recipes.schemas.recipe import Recipe
from grpo_recipes.schemas.section import must_be_said, written_fields
from grpo_recipes.shown_values import shown

_WIDTH = 100
_LONGEST_DEFAULT = 24


def overview() -> str:
    """Sections and keys of the top level with a sentence each, then the ids."""
    docs = field_docs(Recipe)
    keys = [(name, docs.get(name) or (sections().get(name, Recipe).__doc__ or "")) for name in Recipe.model_fields]
    families: dict[str, list[str]] = defaultdict(list)
    for one in sorted(known_ids()):
        families[one[:3]].append(one)
    ids = [
        textwrap.fill(" ".join(family), _WIDTH, initial_indent="  ", subsequent_indent="  ")
        for family in families.values()
    ]
    return "\n".join(
        [
            "Sections and keys of a recipe; grpo-run explain training lists the keys of a section:",
            *_rows([(name, _sentence(text)) for name, text in keys]),
            "",
            "Ids of rules, readers, proofs and guards, such as grpo-run explain BAT001:",
            *ids,
            "",
            "Any field of GRPOConfig, such as grpo-run explain trl.vllm_mode",
        ]
    )


def section_keys(section: str) -> str | None:
    """The keys of a section with default and first sentence, None if it is not a section."""
    model = sections().get(section) if section else None
    if model is None:
        return None
    docs = field_docs(model)
    rows = []
    for name, field in written_fields(model).items():
        below = f"{section}.{name}" in sections()
        default = "required" if must_be_said(field) else shown(field.get_default(call_default_factory=True))
        told = "section" if below and default != "[]" else default if len(default) <= _LONGEST_DEFAULT else "..."
        rows.append((name, told, _sentence(docs.get(name) or "")))
    return "\n".join(["keys, with their defaults:", *_rows(rows)])


def _rows(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Words in columns, the last one wrapped if it is too wide."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]) - 1)]
    lines = []
    for row in rows:
        start = "  " + "".join(f"{cell.ljust(width)}  " for cell, width in zip(row, widths, strict=False))
        lines.append(textwrap.fill(row[-1], _WIDTH, initial_indent=start, subsequent_indent=" " * len(start)) or start)
    return [line.rstrip() for line in lines]


def _sentence(text: str) -> str:
    """The first sentence of a text, on one line."""
    whole = " ".join(text.split())
    first, point, _ = whole.partition(". ")
    return f"{first}." if point else whole
