"""What became of each key of a configuration that was taken over."""

from collections import Counter
from dataclasses import asdict
from typing import Any

from grpo_recipes.contract.findings.wording import aligned, shown
from grpo_recipes.takeover.basis.draft import Row
from grpo_recipes.takeover.takeover import PROGRAMS, Takeover

ORDER = ("refused", "emulated", "mapped")


def takeover_text(taken: Takeover, file: str | None) -> str:
    """The table, worst first, and what the user should know of the release."""
    lines = [f"a configuration for {PROGRAMS[taken.dialect]}, read as {taken.release.name} ({taken.release.how})"]
    if taken.moved:
        lines.append("releases that take the same keys have other defaults; say --written-for if it was an older one:")
        lines.extend(f"  {name}: {text}" for name, text in taken.moved.items())
    rows = sorted(taken.rows, key=lambda row: ORDER.index(row.fate))
    lines += aligned((*_cells(row), row.because) for row in rows)
    counts: Counter[str] = Counter(row.fate for row in taken.rows)
    lines.append(", ".join(f"{counts[fate]} {fate}" for fate in ORDER))
    if taken.stubs:
        sources = [name for name in taken.files if name.endswith(".py")]
        lines.append(f"to be filled in before a run: {', '.join(taken.stubs)} in {' and '.join(sources)}")
    if not taken.is_complete:
        where = file or "the recipe"
        lines.append(f"{where} is not the same experiment until each refused key is answered; its comments say where")
    return "\n".join(lines)


def _cells(row: Row) -> tuple[str, str, str]:
    return row.fate, f"{row.key}: {shown(row.value, 40)}", ", ".join(row.where) or "-"


def takeover_json(taken: Takeover, file: str | None, text: str) -> dict[str, Any]:
    """A takeover as JSON values. file: where the recipe was written, None where it was printed; text: the recipe."""
    return {
        "program": PROGRAMS[taken.dialect],
        "written_for": {"trl": taken.release.trl, "transformers": taken.release.transformers, "how": taken.release.how},
        "defaults_that_moved": dict(taken.moved),
        "complete": taken.is_complete,
        "to_fill_in": list(taken.stubs),
        "file": file,
        "recipe": text,
        "keys": [asdict(row) for row in taken.rows],
    }
