"""Renders findings as text: place, mistake, source line, because, fix. Every such line is written here."""

from collections.abc import Iterable, Sequence
from typing import Self

from grpo_recipes.contract.findings.finding import Finding, mistake

WIDEST_LINE = 160
"""Longer source lines are cut to this many characters around the place."""
MOST_FINDINGS = 100
"""Further findings of a recipe are only counted: users fix the first ones and check again."""
LONGEST_TEXT = 4000
"""Longer messages and reasons are cut to this many characters."""


def finding_text(finding: Finding, file: str) -> str:
    """One finding on several lines, without a final newline. file: named if the finding has no place."""
    where = _one_line(str(finding.mark) if finding.mark else file)
    return "\n".join([f"{where}: {finding.severity}: {_head(finding)}", *_source_line(finding), *_reasons(finding)])


def bare_text(findings: Iterable[Finding]) -> str:
    """The messages without places and severities, to follow "error: "."""
    return "\n".join(line for finding in findings for line in (_head(finding), *_reasons(finding)))


def _head(finding: Finding) -> str:
    return _cut(finding.message) + (f" [{finding.rule}]" if finding.rule else "")


def _reasons(finding: Finding) -> list[str]:
    """The observed values, the reasons, the fix and where to read more."""
    lines = [f"  {line}" for line in finding.seen]
    lines += [f"  = because: {_cut(reason)}" for reason in finding.because]
    lines += [f"  = fix: {finding.fix}"] if finding.fix else []
    lines += [f"  = note: {note}" for note in finding.notes]
    more = finding.more or (f"grpo-run explain {finding.rule}" if finding.rule else "")
    return [*lines, f"  = more: {more}"] if more else lines


def _one_line(text: str) -> str:
    """A file name on one line, since a line break in it could fake a finding."""
    return text.replace("\n", "\\n").replace("\r", "\\r")


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}... ({len(text):,} characters)"


def _source_line(finding: Finding) -> list[str]:
    """The source line with the place underlined; empty for a finding about the whole file."""
    mark = finding.mark
    if mark is None or not mark.line_text.strip():
        return []
    first = max(0, mark.column - WIDEST_LINE // 2) if len(mark.line_text) > WIDEST_LINE else 0
    shown = mark.line_text[first : first + WIDEST_LINE].rstrip()
    text = "".join(c if c.isprintable() else " " for c in shown)
    number = str(mark.line)
    gutter = " " * len(number)
    width = max(1, min(mark.end_column - first, len(text) + 1) - (mark.column - first))
    return [f"{gutter} |", f"{number} | {text}", f"{gutter} | {' ' * (mark.column - first - 1)}{'^' * width}"]


def findings_text(findings: Sequence[Finding], file: str) -> str:
    """All findings with blank lines between them, "" for none; if there are too many, errors first and a count of the
    rest.
    """
    if len(findings) <= MOST_FINDINGS:
        return "\n\n".join(finding_text(finding, file) for finding in findings)
    first = sorted(findings, key=lambda finding: finding.severity != "error")[:MOST_FINDINGS]
    more = f"{len(findings) - MOST_FINDINGS:,} more findings are left out; grpo-run validate --format json prints all"
    return f"{findings_text(first, file)}\n\n{more}"


def count_text(findings: Sequence[Finding]) -> str:
    """ "2 errors, 1 warning"; "no findings" for none."""
    words = {"error": "error", "warning": "warning", "note": "note", "not-checked": "check not made"}
    parts = []
    for severity, word in words.items():
        number = sum(1 for finding in findings if finding.severity == severity)
        if number:
            plural = "checks not made" if severity == "not-checked" else f"{word}s"
            parts.append(f"{number} {word if number == 1 else plural}")
    return ", ".join(parts) or "no findings"


class Mistake(Exception):
    """An exception whose text is made of findings. Subclassed once for the CLI and once for the worker."""

    def __init__(self, *findings: Finding) -> None:
        super().__init__(*findings)

    def __str__(self) -> str:
        return bare_text(self.findings)

    @classmethod
    def of(cls, message: str, *, because: str | Iterable[str] = (), fix: str | None = None) -> Self:
        """The exception with the single finding that `mistake` makes."""
        return cls(mistake(message, because=because, fix=fix))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The problems, at least one."""
        return self.args
