"""Resolves a recipe, the first step of every command that reads one."""

from collections.abc import Sequence

from grpo_recipes.cli.accepted_rules import accept_rules
from grpo_recipes.cli.options import RunOptions
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
