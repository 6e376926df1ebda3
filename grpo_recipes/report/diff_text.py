"""Differences between two plans as text and as JSON: the experiment first."""

import dataclasses
import json
from collections.abc import Sequence

from grpo_recipes.finding import Finding
from grpo_recipes.report.findings_json import finding_value
from grpo_recipes.resolve.differences import Difference, Differences
from grpo_recipes.trust.redact import redact

DIFF_FORMAT = 1
WIDEST = 44
"""A longer value is cut to this many characters."""


def diff_text(names: tuple[str, str], found: Differences) -> str:
    """The differences for a person, without a final newline. names: what stands on each side."""
    lines = [f"a  {names[0]}", f"b  {names[1]}", ""]
    lines.append("another experiment" if found.experiment else "the same experiment")
    lines += _table(found.experiment)
    parts = (("machine", found.machine), ("passed otherwise", found.passed), ("bookkeeping", found.bookkeeping))
    for title, rows in parts:
        if rows:
            lines += ["", title, *_table(rows)]
    return redact("\n".join(lines))


def _table(rows: Sequence[Difference]) -> list[str]:
    cells = [(row.key, _short(row.a), _short(row.b), row.why) for row in rows]
    widths = [max((len(cell[column]) for cell in cells), default=0) for column in range(3)]
    return [f"  {key:<{widths[0]}}  {a:<{widths[1]}}  {b:<{widths[2]}}   {why}".rstrip() for key, a, b, why in cells]


def _short(value: object) -> str:
    """A value as JSON, "-" where there is none, text without quotes."""
    if value is None:
        return "-"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return text if len(text) <= WIDEST else text[: WIDEST - 3] + "..."


def diff_json(names: tuple[str, str], found: Differences) -> str:
    """The same in the form of schemas/diff.schema.json."""
    return _document(
        {"a": names[0], "b": names[1], "same_experiment": not found.experiment, **dataclasses.asdict(found)}
    )


def refused_json(sides: Sequence[tuple[str, Sequence[Finding]]]) -> str:
    """The findings of both sides, where one cannot be run and nothing can be said about the experiment."""
    findings = {
        side: [finding_value(finding, name) for finding in found]
        for side, (name, found) in zip("ab", sides, strict=True)
    }
    return _document({"a": sides[0][0], "b": sides[1][0], "same_experiment": None, "findings": findings})


def _document(value: dict[str, object]) -> str:
    return redact(json.dumps({"diff_format": DIFF_FORMAT, **value}, indent=2, ensure_ascii=False, default=str))
