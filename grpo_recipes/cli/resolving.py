"""What every command that reads a recipe does first."""

from collections.abc import Sequence
from dataclasses import replace

from grpo_recipes.finding import Finding
from grpo_recipes.resolve.resolve import Resolution, resolve
from grpo_recipes.stack.stack import Stack


def resolved(recipe: str, stack: Stack, overrides: Sequence[str], *, strict: bool) -> Resolution:
    """The resolution of a recipe; strict turns what was not checked into errors."""
    resolution = resolve(recipe, stack, overrides)
    if not strict:
        return resolution
    findings = tuple(_strict(finding) for finding in resolution.findings)
    return replace(resolution, findings=findings)


def _strict(finding: Finding) -> Finding:
    return replace(finding, severity="error") if finding.severity == "not-checked" else finding
