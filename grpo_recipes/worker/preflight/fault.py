"""A fault: what a check found, in the form of a finding, without the place in the recipe that only the caller knows."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

Severity = Literal["error", "warning", "note", "not-checked"]
Key = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """One mistake. key: path of its key in the recipe. patch: {path, value, remove}, as findings have it."""

    id: str
    severity: Severity
    message: str
    key: Key
    because: tuple[str, ...] = ()
    fix: str | None = None
    patch: tuple[dict[str, Any], ...] = ()

    def as_record(self) -> dict[str, Any]:
        """The fault as JSON values."""
        return asdict(self)


def of_stopped(identity: str, text: str, key: Key) -> Fault:
    """The fault that a message of the worker tells, whose lines begin with "= because:" and "= fix:"."""
    first, *rest = text.splitlines()
    because = [line.strip() for line in rest if line.strip() and not line.strip().startswith("= fix: ")]
    fixes = [line.strip().removeprefix("= fix: ") for line in rest if line.strip().startswith("= fix: ")]
    reasons = tuple(line.removeprefix("= because: ").removeprefix("= ") for line in because)
    return Fault(identity, "error", first, key, because=reasons, fix=fixes[0] if fixes else None)


def listed(items: Sequence[object], most: int = 3) -> str:
    """ "1, 2, 3 and 4 more"."""
    shown = ", ".join(map(str, items[:most]))
    return shown + (f" and {len(items) - most} more" if len(items) > most else "")


def cut(text: str, most: int = 100) -> str:
    """The text on one line, at most so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 3]}..."
