"""Resolves a recipe, the first step of every command that reads one."""

from collections.abc import Sequence

from grpo_recipes.cli.completion import SHIMS, why_not_accepted
from grpo_recipes.cli.options import RunOptions
from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.findings.findings_text import count_text, findings_text
from grpo_recipes.resolve.mixture import of_held_out, of_sources
from grpo_recipes.resolve.resolve import Resolution, resolve
from grpo_recipes.rules._shared.context import NotJudged
from grpo_recipes.rules._shared.training_rows import held_out_sets, is_of_the_hub
from grpo_recipes.stack.stack import Stack
from grpo_recipes.user_files.local_files import name_list


def resolve_recipe(recipe: str, stack: Stack, options: RunOptions, content: str | None = None) -> Resolution:
    """Resolves a recipe; strict turns unchecked points into errors, accepted rules only warn.

    content: replaces the recipe's own text. Raises Refusal for a rule that cannot be accepted.
    """
    resolution = resolve(recipe, stack, options.overrides, content)
    return apply_options(resolution, strict=options.strict, accepted=options.accepted)


def apply_options(resolution: Resolution, *, strict: bool, accepted: Sequence[str]) -> Resolution:
    """The resolution with the user's options applied to its findings. Raises Refusal as `resolve_recipe` does."""
    if strict:
        resolution = resolution._replace(findings=tuple(_strict(finding) for finding in resolution.findings))
    return accept_rules(resolution, accepted) if accepted else resolution


def _strict(finding: Finding) -> Finding:
    return finding._replace(severity="error") if finding.severity == "not-checked" else finding


def findings_answer(file: str, findings: Sequence[Finding], *, as_json: bool, between: str = "", then: str = "") -> str:
    """Findings as JSON, or as text with a line that counts them. between, then: texts before and after that line."""
    if as_json:
        from grpo_recipes.report.findings_formats import findings_json  # takes a moment to import

        return findings_json({file: findings})
    count = f"{file}: {count_text(findings)}{then}"
    return "\n\n".join(filter(None, (findings_text(findings, file), between, count)))


def columns_not_checked(resolution: Resolution) -> str:
    """What no rule could check: the columns of hub data sets, which are only known once they are downloaded."""
    context = resolution.context
    if context is None:
        return ""
    try:
        keys = [(source, "dataset.path") for source in of_sources(context)]
        keys += [(of_set, "evaluation.path") for _, of_set in held_out_sets(of_held_out(context))]
    except NotJudged:  # a refused value is an error already
        return ""
    named = dict.fromkeys(str(source.settings[key].value) for source, key in keys if is_of_the_hub(source, key))
    return f", not checked: the columns of {name_list([*named])}, which grpo-run preflight reads" if named else ""


# `--accept RULE`: turns a rule's errors into warnings, for a patched stack without the defect.
#
# If its shim would not change the experiment, it is left out instead: SHM024, SHM025.


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
