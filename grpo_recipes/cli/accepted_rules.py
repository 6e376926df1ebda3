"""`--accept RULE`: turns a rule's errors into warnings, for a patched stack without the defect.

If its shim would not change the experiment, it is left out instead: SHM024, SHM025.
"""

from collections.abc import Sequence

from grpo_recipes.cli.completion import SHIMS, why_not_accepted
from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.resolve.resolve import Resolution


def accept_rules(resolution: Resolution, accepted: Sequence[str]) -> Resolution:
    """The resolution with the errors of these rules as warnings. Raises Refusal for an id that cannot be accepted."""
    ids = tuple(dict.fromkeys(rule.upper() for rule in accepted))
    for rule in ids:
        if (why := why_not_accepted(rule)) is not None:
            raise Refusal.of(f"--accept {rule}: {why}")
    findings = tuple(_accept(f) if _is_error_of(f, ids) else f for f in resolution.findings)
    used = tuple(rule for rule in ids if any(_is_error_of(finding, (rule,)) for finding in resolution.findings))
    context = resolution.context
    left_out = [rule for rule in ids if context is not None and SHIMS.get(rule) in context.settings]
    if context is not None and left_out:
        context = context._replace(settings=context.settings.without(SHIMS[rule] for rule in left_out))
    return resolution._replace(context=context, findings=findings, accepted=(*used, *left_out))


def _is_error_of(finding: Finding, ids: Sequence[str]) -> bool:
    return finding.severity == "error" and finding.rule in ids


def _accept(finding: Finding) -> Finding:
    """The accepted finding: a warning without a fix."""
    return finding._replace(
        severity="warning",
        message=f"accepted: {finding.message}",
        because=(*finding.because, f"--accept {finding.rule}: without it this is an error"),
        fix=None,
        patch=(),
    )
