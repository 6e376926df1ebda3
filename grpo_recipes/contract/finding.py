"""A finding: one mistake, where it stands, why it is one and what to write instead."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning", "note", "not-checked"]
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """A place in a recipe file: line and columns count from 1, `end_column` is exclusive.

    file: as the user wrote it, or "--set" for an override, whose text is then `line_text`.
    line_text: the whole source line, so that a finding can be shown after the file is gone.
    """

    file: str
    line: int
    column: int
    end_column: int
    line_text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Patch:
    """The fix as data: set the value at `path`, or remove the key when `remove` is true."""

    path: Path
    value: object = None
    remove: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong and how to mend it.

    rule: the id, as `grpo-run explain` takes it. key: the recipe key in dots, "" for the whole file.
    because: reasons with their numbers and origins. fix: text to paste; patch: the same as data.
    """

    rule: str
    severity: Severity
    message: str
    key: str = ""
    mark: Mark | None = None
    because: tuple[str, ...] = ()
    fix: str | None = None
    patch: tuple[Patch, ...] = ()


def dotted(path: Path) -> str:
    """The key of a path as it is written in messages and `--set`: rewards[0].weight."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def moved_to(findings: Iterable[Finding]) -> set[Path]:
    """Where fixes put what stands under another name or in another place; what is there now is not what is meant."""
    moves = [finding.patch for finding in findings if any(patch.remove for patch in finding.patch)]
    return {patch.path for patches in moves for patch in patches if not patch.remove}


def by_place(findings: Iterable[Finding]) -> list[Finding]:
    """Findings sorted by file, line and column; those without a place come last."""
    return sorted(
        findings,
        key=lambda f: (
            (f.mark is None, f.mark.file, f.mark.line, f.mark.column, f.rule) if f.mark else (True, "", 0, 0, f.rule)
        ),
    )


def has_errors(findings: Iterable[Finding]) -> bool:
    """Whether any finding forbids to start."""
    return any(f.severity == "error" for f in findings)
