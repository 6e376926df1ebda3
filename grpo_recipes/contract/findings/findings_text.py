"""Findings as text: where, what, the source line, because, fix. Nobody else writes these lines."""

from collections.abc import Iterable, Sequence
from typing import Self

from grpo_recipes.contract.findings.finding import Finding, mistake

WIDEST_LINE = 160
"""A longer source line is cut to this many characters around the place."""
MOST_FINDINGS = 100
"""More findings of one recipe are counted, not shown: a person mends the first ones and looks again."""
LONGEST_TEXT = 4000
"""Characters of a message or a reason, from which on it is cut."""


def finding_text(finding: Finding, file: str) -> str:
    """One finding on several lines, without a final newline. file: named when the finding has no place."""
    place = _one_line(str(finding.mark) if finding.mark else file)
    return "\n".join([f"{place}: {finding.severity}: {_head(finding)}", *_source_line(finding), *_reasons(finding)])


def bare_text(findings: Iterable[Finding]) -> str:
    """What is wrong, without places and severities, as it follows the word "error: "."""
    return "\n".join(line for finding in findings for line in (_head(finding), *_reasons(finding)))


def _head(finding: Finding) -> str:
    return _cut(finding.message) + (f" [{finding.rule}]" if finding.rule else "")


def _reasons(finding: Finding) -> list[str]:
    """What was seen, the reasons, the way out, and where more is told."""
    lines = [f"  {line}" for line in finding.seen]
    lines += [f"  = because: {_cut(reason)}" for reason in finding.because]
    lines += [f"  = fix: {finding.fix}"] if finding.fix else []
    lines += [f"  = note: {note}" for note in finding.notes]
    more = finding.more or (f"grpo-run explain {finding.rule}" if finding.rule else "")
    return [*lines, f"  = more: {more}"] if more else lines


def _one_line(text: str) -> str:
    """A file's name, in which a line break would begin a finding of its own."""
    return text.replace("\n", "\\n").replace("\r", "\\r")


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}... ({len(text):,} characters)"


def _source_line(finding: Finding) -> list[str]:
    """The source line with the place underlined; nothing for a finding about the whole file."""
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
    """The findings, a blank line between them, "" for none; of too many the errors first, and how many are left out."""
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
    """What is wrong, as findings, of which its text is made. Each room of the program raises a kind of its own."""

    def __init__(self, *findings: Finding) -> None:
        super().__init__(*findings)

    def __str__(self) -> str:
        return bare_text(self.findings)

    @classmethod
    def of(cls, message: str, *, because: str | Iterable[str] = (), fix: str | None = None) -> Self:
        """The exception with the one finding that `mistake` makes of this."""
        return cls(mistake(message, because=because, fix=fix))

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong, at least one."""
        return self.args
