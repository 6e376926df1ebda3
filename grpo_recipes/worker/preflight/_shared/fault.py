"""A fault: what a check of the preflight found, at a key of the recipe whose place only the caller knows."""

from collections.abc import Sequence

from grpo_recipes.contract.findings.finding import Finding, Patch, Path, Severity, dotted


def fault(
    rule: str,
    severity: Severity,
    message: str,
    path: Path,
    because: tuple[str, ...] = (),
    fix: str | None = None,
    patch: tuple[Patch, ...] = (),
) -> Finding:
    """The finding of a check. path: of its key in the recipe."""
    return Finding(rule, severity, message, dotted(path), because=because, fix=fix, patch=patch, path=path)


def listed(items: Sequence[object], most: int = 3) -> str:
    """ "1, 2, 3 and 4 more"."""
    shown = ", ".join(map(str, items[:most]))
    return shown + (f" and {len(items) - most} more" if len(items) > most else "")


def cut(text: str, most: int = 100) -> str:
    """The text on one line, at most so many characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 3]}..."
