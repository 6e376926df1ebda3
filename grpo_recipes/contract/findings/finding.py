"""A finding: one mistake, its place, the reasons and the fix."""

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal, NamedTuple

Severity = Literal["error", "warning", "note", "not-checked"]
Path = tuple[str | int, ...]


class Mark(NamedTuple):
    """A place in a recipe file. Line and columns count from 1; `end_column` is exclusive.

    file: as the user wrote it, or "--set" for an override, whose text is then `line_text`.
    line_text: the whole source line, so that a finding can be shown without the file.
    """

    file: str
    line: int
    column: int
    end_column: int
    line_text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Patch(NamedTuple):
    """The fix as data: set the value at `path`, or remove the key when `remove` is true."""

    path: Path
    value: object = None
    remove: bool = False


class Finding(NamedTuple):
    """A problem and its fix.

    rule: the id that `grpo-run explain` takes, "" if it has no page. key: the recipe key in dots, "" for the whole
    file. because: reasons, with their numbers and origins. fix: text to paste; patch: the same as data.
    seen: observed and planned values, one per line. notes: further advice. more: where to read more, if not on the
    page. path: of the key, if the finder does not know its place in the file.
    """

    rule: str
    severity: Severity
    message: str
    key: str = ""
    mark: Mark | None = None
    because: tuple[str, ...] = ()
    fix: str | None = None
    patch: tuple[Patch, ...] = ()
    seen: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    more: str = ""
    path: Path = ()


def mistake(
    message: str,
    path: Path = (),
    because: str | Iterable[str] = (),
    fix: str | None = None,
    patch: Iterable[Patch] = (),
    *,
    seen: Iterable[str] = (),
    more: str = "",
    severity: Severity = "error",
    rule: str = "",
) -> Finding:
    """A finding of anything but a rule, whose place in a file is not known.

    path: of the key, if it is about a recipe's; it may begin with a section in dots, "evaluation.sets.easy". because:
    one reason or several; "" is left out. rule: the id, if the caller does not add it.
    """
    path = (*(part for first in path[:1] for part in str(first).split(".")), *path[1:])
    reasons = filter(None, (because,) if isinstance(because, str) else because)
    words = (rule, severity, message, path_text(path), None, tuple(reasons), fix)
    return Finding(*words, tuple(patch), tuple(seen), more=more, path=path)


warning = functools.partial(mistake, severity="warning")
note = functools.partial(mistake, severity="note")
not_checked = functools.partial(mistake, severity="not-checked")


def as_record(finding: Finding) -> dict[str, Any]:
    """The finding as JSON values, without its mark, which only the reader of the recipe knows."""
    return {
        "id": finding.rule,
        "severity": finding.severity,
        "message": finding.message,
        "key": list(finding.path),
        "because": list(finding.because),
        "fix": finding.fix,
        "patch": [patch._asdict() for patch in finding.patch],
        "seen": list(finding.seen),
        "notes": list(finding.notes),
        "more": finding.more,
    }


def of_record(record: Mapping[str, Any]) -> Finding:
    """The finding that `as_record` wrote, with its key in dots."""
    path = tuple(record["key"])
    return Finding(
        record["id"],
        record["severity"],
        record["message"],
        path_text(path),
        because=tuple(record["because"]),
        fix=record["fix"],
        patch=tuple(Patch(**{**patch, "path": tuple(patch["path"])}) for patch in record["patch"]),
        seen=tuple(record["seen"]),
        notes=tuple(record["notes"]),
        more=record["more"],
        path=path,
    )


def path_text(path: Path) -> str:
    """A path as messages and `--set` write it: rewards[0].weight."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


ABSENT = object()


def value_at(values: Any, path: Path, default: object = None) -> Any:
    """The value at a path through maps and lists, or the default."""
    for part in path:
        is_item = isinstance(values, list) and isinstance(part, int) and part < len(values)
        if not is_item and not (isinstance(values, Mapping) and part in values):
            return default
        values = values[part]
    return values


def below(value: object, path: Path) -> Iterator[Path]:
    """The path of a value and of everything below it."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from below(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from below(inner, (*path, index))


def paths_moved_to(findings: Iterable[Finding]) -> set[Path]:
    """The paths that fixes fill with a value moved from elsewhere, so that what is there now is not what is meant."""
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
    """Whether any finding prevents the start."""
    return any(f.severity == "error" for f in findings)
