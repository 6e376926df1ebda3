"""The first step of every command that reads a recipe."""

from collections.abc import Sequence

from grpo_recipes.cli.accept_option import accepting
from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.findings.findings_text import count_text, findings_text
from grpo_recipes.resolve.resolve import Resolution, resolve
from grpo_recipes.stack.stack import Stack


def resolved(
    recipe: str,
    stack: Stack,
    overrides: Sequence[str],
    *,
    strict: bool,
    accepted: Sequence[str] = (),
    content: str | None = None,
) -> Resolution:
    """The resolution of a recipe; strict turns unchecked points into errors, accepted rules only warn.

    content: used instead of the recipe's own text. Raises Refusal for a rule that cannot be accepted.
    """
    resolution = resolve(recipe, stack, overrides, content)
    return judged(resolution, strict=strict, accepted=accepted)


def judged(resolution: Resolution, *, strict: bool, accepted: Sequence[str]) -> Resolution:
    """The resolution with the user's options applied to its findings. Raises Refusal as `resolved` does."""
    if strict:
        resolution = resolution._replace(findings=tuple(_strict(finding) for finding in resolution.findings))
    return accepting(resolution, accepted) if accepted else resolution


def _strict(finding: Finding) -> Finding:
    return finding._replace(severity="error") if finding.severity == "not-checked" else finding


def findings_answer(file: str, findings: Sequence[Finding], *, as_json: bool, between: str = "", then: str = "") -> str:
    """Findings as JSON, or as text with a line that counts them. between, then: before and behind that line."""
    if as_json:
        from grpo_recipes.report.findings_formats import findings_json  # which takes a moment to import

        return findings_json({file: findings})
    count = f"{file}: {count_text(findings)}{then}"
    return "\n\n".join(filter(None, (findings_text(findings, file), between, count)))
