"""Differences between two plans as Markdown for a pull request: short, the rest folded up."""

from collections.abc import Sequence
from itertools import groupby

from grpo_recipes.compare.differences import Differences
from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.findings.findings_text import findings_text
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.report.diff_text import PARTS, UNCHANGED, Both, Changed, Names, cells_of, verdict
from grpo_recipes.report.lineage_text import lineage_lines
from grpo_recipes.report.measured import measured_rows

Row = tuple[str, str, str, str]


def diff_markdown(names: Names, found: Differences, measured: Both = (None, None), changed: Changed = UNCHANGED) -> str:
    """The differences as Markdown, without a final newline. names: what stands on each side."""
    lines = [f"### {verdict(found).capitalize()}", "", *_names(names)]
    for side, runs, marks in (("a", found.lineage.a, changed[0]), ("b", found.lineage.b, changed[1])):
        rows = [*lineage_lines(runs), *marks]
        lines += ["", *(f"- {side} {_code(line)}" for line in rows)] if rows else []
    if found.experiment:
        lines += ["", "| | a | b |", "|---|---|---|"]
    for group, differing in groupby(found.experiment, key=lambda row: row.group):
        lines += [f"| **{group}** | | |", *_rows(cells_of(tuple(differing)), reasons=False)]
    for part, title in PARTS:
        rows = getattr(found, part)
        if rows:
            lines += ["", *_folded(f"{title}: {_count(len(rows))}", _with_reasons(cells_of(rows)))]
    figures = measured_rows(measured)
    if figures:
        table = ["| | a | b |", "|---|---|---|", *_rows([(*row, "") for row in figures], reasons=False)]
        lines += ["", *_folded("measured, for information", table)]
    return redact("\n".join(lines))


def refused_markdown(sides: Sequence[tuple[str, Sequence[Finding]]]) -> str:
    """The errors of both sides, where one cannot be run and nothing can be said about the experiment."""
    names = sides[0][0], sides[1][0]
    lines = ["### Nothing can be said about the experiment", "", *_names(names)]
    for side, (name, found) in zip("ab", sides, strict=True):
        errors = [finding for finding in found if finding.severity == "error"]
        if errors:
            text = findings_text(errors, name)
            fence = "`" * (_longest_run(text) + 3)
            lines += ["", *_folded(f"{side} cannot be run: {len(errors)} of its findings", [fence, text, fence])]
    return redact("\n".join(lines))


def _names(names: Names) -> list[str]:
    return [f"a: {_code(names[0])}<br>", f"b: {_code(names[1])}"]


def _with_reasons(cells: Sequence[Row]) -> list[str]:
    return ["| | a | b | why |", "|---|---|---|---|", *_rows(cells, reasons=True)]


def _rows(cells: Sequence[Row], *, reasons: bool) -> list[str]:
    return [
        f"| {_code(key)} | {_code(a)} | {_code(b)} |{f' {_code(why)} |' if reasons else ''}" for key, a, b, why in cells
    ]


def _folded(title: str, lines: Sequence[str]) -> list[str]:
    return [f"<details><summary>{title}</summary>", "", *lines, "", "</details>"]


def _count(number: int) -> str:
    return f"{number} difference{'' if number == 1 else 's'}"


def _code(text: str) -> str:
    """The text as it is, on one line and in one cell: nothing in it is Markdown, HTML or a mention."""
    if text in ("", "-"):
        return text
    line = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text).replace("|", "\\|")
    fence = "`" * (_longest_run(line) + 1)
    space = " " if "`" in line or not line.strip() else ""
    return f"{fence}{space}{line}{space}{fence}"


def _longest_run(text: str) -> int:
    """The length of the longest run of backticks."""
    longest = run = 0
    for character in text:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    return longest
