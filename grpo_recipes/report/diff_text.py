"""Formats the differences between two plans as text and JSON, the experiment first."""

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from grpo_recipes.compare.differences import Difference, Differences
from grpo_recipes.compare.drift import DriftLine, changes_the_experiment
from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.findings.findings_text import count_text, findings_text
from grpo_recipes.contract.findings.wording import align_rows, one_line, shorten
from grpo_recipes.contract.metrics import evaluation_text, figure, figures_of, left_out_text, mapping
from grpo_recipes.contract.plan import Plan
from grpo_recipes.contract.run_record import OTHERS, RunRecord, of_each_set
from grpo_recipes.contract.secrets.redact import redact
from grpo_recipes.report.findings_formats import finding_value
from grpo_recipes.report.plan_text import lineage_lines

DIFF_FORMAT = 1
WIDEST = 44
"""Longer values are cut to this many characters."""
DIGESTS = ("sha256", "commit", "chat_template")
PARTS = (("machine", "machine"), ("passed", "passed differently"), ("bookkeeping", "bookkeeping"))
"""The parts after the experiment, with their titles."""


class Side(NamedTuple):
    """One side of a comparison. plan: None for a refused recipe, whose findings say why.

    measured: results of a run folder; not part of the experiment. changed: files of a run folder that changed
    since grpo-run wrote them, each with the reason.
    """

    name: str
    file: str
    plan: Plan | None
    findings: tuple[Finding, ...] = ()
    measured: RunRecord | None = None
    changed: tuple[str, ...] = ()


def diff_text(a: Side, b: Side, differences: Differences) -> str:
    """The differences for a person, without a final newline."""
    lines = [f"a  {a.name}", *(f"     {line}" for line in (*lineage_lines(differences.lineage.a), *a.changed))]
    lines += [f"b  {b.name}", *(f"     {line}" for line in (*lineage_lines(differences.lineage.b), *b.changed))]
    lines += ["", verdict(differences)]
    for group, differing in groupby(differences.experiment, key=lambda row: row.group):
        lines += [f"  {group}", *(f"  {line}" for line in _table(cells_of(tuple(differing))))]
    for part, title in PARTS:
        rows = getattr(differences, part)
        if rows:
            lines += ["", title, *_table(cells_of(rows))]
    figures = rows_of_figures((a.measured, b.measured))
    if figures:
        lines += ["", "measured, for information", *_table([("", "a", "b", ""), *((*row, "") for row in figures)])]
    return redact("\n".join(lines))


def verdict(differences: Differences) -> str:
    """The conclusion in three words."""
    return "a different experiment" if differences.experiment else "the same experiment"


def cells_of(rows: Sequence[Difference]) -> list[tuple[str, str, str, str]]:
    """Key, both values as short texts, and the reason, of each row."""
    return [(row.key, *_pair(row), row.why) for row in rows]


def _table(cells: Sequence[tuple[str, str, str, str]]) -> list[str]:
    return [f"  {line}" for line in align_rows((key, a, b, why and f" {why}") for key, a, b, why in cells)]


def _pair(row: Difference) -> tuple[str, str]:
    """Both values as text, "-" for a missing one; long texts are cut to where they begin to differ."""
    a, b = (_plain(row.key, value) for value in (row.a, row.b))
    alike = next((index for index, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    start = max(0, alike - WIDEST // 2) if alike >= WIDEST - 3 else 0
    return _cut(a, start), _cut(b, start)


def _plain(key: str, value: object) -> str:
    if value is None:
        return "-"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    if isinstance(value, str) and key.endswith(DIGESTS):
        return text[:12]
    return one_line(text)


def _cut(text: str, start: int) -> str:
    return shorten(f"...{text[start:]}" if start else text, WIDEST)


def diff_json(a: Side, b: Side, differences: Differences) -> str:
    """The differences of two sides in the form of schemas/diff.schema.json."""
    value: dict[str, object] = {"a": a.name, "b": b.name, "same_experiment": not differences.experiment}
    measured = {
        letter: {"status": run.status, "step": run.step, "max_steps": run.max_steps, **_evaluations(run)}
        for letter, run in (("a", a.measured), ("b", b.measured))
        if run is not None
    }
    changed = {letter: list(side.changed) for letter, side in (("a", a), ("b", b)) if side.changed}
    return _document({**value, **dataclasses.asdict(differences), "measured": measured, "changed": changed})


def refusal_text(a: Side, b: Side) -> str:
    """The errors of a side that cannot run, each followed by an empty line, or a note that it can."""
    sections = []
    for side in (a, b):
        errors = [finding for finding in side.findings if finding.severity == "error"]
        text = f"{side.name}: {count_text(errors)}\n\n{findings_text(errors, side.file)}\n\n"
        sections.append(text if errors else f"{side.name} can run\n\n")
    return redact("".join(sections))


def refusal_json(a: Side, b: Side) -> str:
    """The findings of both sides, if one cannot run and the experiments cannot be compared."""
    findings = {"a": [finding_value(finding, a.name) for finding in a.findings]}
    findings |= {"b": [finding_value(finding, b.name) for finding in b.findings]}
    return _document({"a": a.name, "b": b.name, "same_experiment": None, "findings": findings})


def _document(value: dict[str, object]) -> str:
    return redact(json.dumps({"diff_format": DIFF_FORMAT, **value}, indent=2, ensure_ascii=False, default=str))


def rows_of_figures(both: Sequence[RunRecord | None]) -> list[tuple[str, str, str]]:
    """Name and text of each figure on both sides, "-" for a missing one; empty without a run."""
    sides = [{} if run is None else _texts(run) for run in both]
    names = dict.fromkeys([*sides[0], *sides[1]])
    return [(name, sides[0].get(name, "-"), sides[1].get(name, "-")) for name in names]


def _evaluations(record: RunRecord) -> dict[str, Mapping[str, object] | None]:
    others = mapping(record.evaluation, OTHERS)
    moments: dict[str, Mapping[str, object] | None] = {
        when: mapping(record.evaluation, when) or None for when in ("before", "after")
    }
    return {**moments, **({OTHERS: others} if others else {})}


def _texts(record: RunRecord) -> dict[str, str]:
    from grpo_recipes.launch.summary import status_line

    texts = {"status": status_line(record)}
    for name, known in of_each_set(record.evaluation):
        for when in ("before", "after"):
            event, head = mapping(known, when), f"held out{f' {name}' if name else ''} {when}"
            if event and isinstance(event.get("intervals"), Mapping):
                texts |= {f"{head}, {label}": figure(value, ends) for label, value, ends in figures_of(event)}
                if left_out := left_out_text(event):
                    texts[f"{head}, left out"] = left_out.removeprefix(", ")
            elif event:
                texts[head] = evaluation_text(event)
    return texts


Row = tuple[str, str, str, str]


def diff_markdown(a: Side, b: Side, differences: Differences) -> str:
    """The differences as Markdown, without a final newline."""
    lines = [f"### {verdict(differences).capitalize()}", "", *_names(a, b)]
    for letter, runs, side in (("a", differences.lineage.a, a), ("b", differences.lineage.b, b)):
        rows = [*lineage_lines(runs), *side.changed]
        lines += ["", *(f"- {letter} {_code(line)}" for line in rows)] if rows else []
    if differences.experiment:
        lines += ["", "| | a | b |", "|---|---|---|"]
    for group, differing in groupby(differences.experiment, key=lambda row: row.group):
        lines += [f"| **{group}** | | |", *_rows(cells_of(tuple(differing)), reasons=False)]
    for part, title in PARTS:
        rows = getattr(differences, part)
        if rows:
            lines += ["", *_fold(f"{title}: {_count(len(rows))}", _with_reasons(cells_of(rows)))]
    figures = rows_of_figures((a.measured, b.measured))
    if figures:
        table = ["| | a | b |", "|---|---|---|", *_rows([(*row, "") for row in figures], reasons=False)]
        lines += ["", *_fold("measured, for information", table)]
    return redact("\n".join(lines))


def refusal_markdown(a: Side, b: Side) -> str:
    """The errors of both sides, if one cannot run and the experiments cannot be compared."""
    lines = ["### The experiments cannot be compared", "", *_names(a, b)]
    for letter, side in (("a", a), ("b", b)):
        errors = [finding for finding in side.findings if finding.severity == "error"]
        if errors:
            text = findings_text(errors, side.name)
            fence = "`" * (_longest_run(text) + 3)
            lines += ["", *_fold(f"{letter} cannot be run: {len(errors)} of its findings", [fence, text, fence])]
    return redact("\n".join(lines))


def _names(a: Side, b: Side) -> list[str]:
    return [f"a: {_code(a.name)}<br>", f"b: {_code(b.name)}"]


def _with_reasons(cells: Sequence[Row]) -> list[str]:
    return ["| | a | b | why |", "|---|---|---|---|", *_rows(cells, reasons=True)]


def _rows(cells: Sequence[Row], *, reasons: bool) -> list[str]:
    return [
        f"| {_code(key)} | {_code(a)} | {_code(b)} |{f' {_code(why)} |' if reasons else ''}" for key, a, b, why in cells
    ]


def _fold(title: str, lines: Sequence[str]) -> list[str]:
    return [f"<details><summary>{title}</summary>", "", *lines, "", "</details>"]


def _count(number: int) -> str:
    return f"{number} difference{'' if number == 1 else 's'}"


def _code(text: str) -> str:
    """The text as one line of inline code that fits a table cell and never acts as Markdown, HTML or a mention."""
    if text in ("", "-"):
        return text
    line = one_line(text).replace("|", "\\|")
    fence = "`" * (_longest_run(line) + 1)
    space = " " if "`" in line or not line.strip() else ""
    return f"{fence}{space}{line}{space}{fence}"


def _longest_run(text: str) -> int:
    """The length of the longest run of backticks."""
    return max(map(len, re.findall("`+", text)), default=0)


DRIFT_FORMAT = 1


def drift_text(path: str, lines: Sequence[DriftLine]) -> str:
    """One line per compared item, without a final newline. path: of the plan."""
    cells = [(_state(line), line.what, _values(line)) for line in lines]
    return redact("\n".join([f"since {path} was written", *(f"  {line}" for line in align_rows(cells))]))


def _state(line: DriftLine) -> str:
    return f"differs ({line.kind})" if line.state == "differs" else line.state


def _values(line: DriftLine) -> str:
    values = ""
    if line.state == "differs":
        values = f"{_short(line.old)} -> {_short(line.new)}"
    elif line.old is not None:
        values = _short(line.old)
    return f"{values}   {line.why}".strip() if line.why else values


def _short(value: object) -> str:
    """Text without quotes, other values as JSON, "-" for None; digests and commits are cut to 12 digits."""
    text = "-" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if len(text) in (40, 64) and set(text) <= set("0123456789abcdef"):
        return text[:12]
    return shorten(text, WIDEST)


def drift_json(path: str, lines: Sequence[DriftLine]) -> str:
    """The lines of a drift as JSON, values in full. path: of the plan."""
    document = {
        "drift_format": DRIFT_FORMAT,
        "plan": path,
        "same_experiment": not changes_the_experiment(lines),
        "lines": [dataclasses.asdict(line) for line in lines],
    }
    return redact(json.dumps(document, indent=2, ensure_ascii=False, default=str))
