"""Runs the rules: decide rules fill absent and auto values, check rules judge complete ones."""

from collections.abc import Iterable

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.facts.released.windows import is_within
from grpo_recipes.resolve.mixture import of_all_environments, of_environments, of_held_out, of_mixture, of_sources
from grpo_recipes.rules._shared.context import Context, NotJudged
from grpo_recipes.rules._shared.settings import Settings
from grpo_recipes.rules.catalog import Rule, deciding_rules, rules
from grpo_recipes.stack.stack import Stack


def applies(rule: Rule, stack: Stack) -> bool | None:
    """Whether the rule applies to this stack; None if a version that it depends on is unknown."""
    for package, specifier in rule.applies_to.items():
        version = stack.version(package)
        if version is None:
            return False if stack.is_absent(package) else None
        if not is_within(version, specifier):
            return False
    return True


_OF_VIEWS = ("dataset.", "datasets.", "rewards", "evaluation.rewards")
_OF_ENVIRONMENT = "environment."


def decide(context: Context) -> Settings:
    """The settings with the values of all decide rules; a value that the user wrote is never overwritten.

    Rules see the first source of a mixture as its `dataset`, and the first of several environments as its
    `environment`, and decide nothing in those sections.
    """
    of_rows = of_held_out(context)
    first = of_environments(of_rows)[0]
    if first is context:
        return _decided(context)
    views = (*(() if of_rows is context else _OF_VIEWS), *(() if first is of_rows else (_OF_ENVIRONMENT,)))
    own = [one for one in _decided(first).values() if not one.key.startswith(views)]
    return context.settings.having(own)


def _decided(context: Context) -> Settings:
    current = context._replace(written=context.settings)
    for rule in deciding_rules():
        if rule.decide is None or not applies(rule, current.stack):
            continue
        try:
            chosen = list(rule.decide(current))
        except NotJudged:
            continue
        settings = []
        for setting in chosen:
            before = current.settings.get(setting.key)
            if setting.key not in rule.owns:
                raise AssertionError(f"{rule.id} sets {setting.key}, which it does not own")
            if before is not None and before.given and before.value not in ("auto", None):
                raise AssertionError(f"{rule.id} overwrites {setting.key}, which the user wrote")
            settings.append(setting._replace(origin=rule.id, path=before.path if before is not None else None))
        if settings:
            current = current._replace(settings=current.settings.having(settings))
    return current.settings


def check(context: Context) -> list[Finding]:
    """All findings of the check rules, and a note for each rule that could not be judged for lack of knowledge."""
    sources = of_sources(context)
    if sources[0] is not context:
        found = of_mixture([_checked_in_each(source) for source in sources], context)
        if context.has_section("evaluation"):
            known = {(one.rule, one.message) for one in found}
            others = (
                one for one in _checked_in_each(of_held_out(context)) if not one.key.startswith(("dataset", "rewards"))
            )
            found += [one for one in others if (one.rule, one.message) not in known]
        return found
    return _checked_in_each(context)


def _checked_in_each(context: Context) -> list[Finding]:
    """The findings for each of the environments."""
    views = of_environments(context)
    if views[0] is context:
        return _checked(context)
    return of_all_environments([_checked(view) for view in views], views)


def _checked(context: Context) -> list[Finding]:
    findings: list[Finding] = []
    for rule in rules():
        if rule.check is None:
            continue
        is_for = applies(rule, context.stack)
        if is_for is None:
            # A rule without findings for the recipe needs no note, whatever the version is.
            findings.extend(_not_checked(rule, context, found) for found in list(_judged(rule, context))[:1])
        elif is_for:
            findings.extend(_judged(rule, context))
    return findings


def _judged(rule: Rule, context: Context) -> Iterable[Finding]:
    if rule.check is None:
        return []
    try:
        found = list(rule.check(context))
    except NotJudged:
        return []
    if not found:
        return found
    spoken_for = {path[:depth] for path in context.refused for depth in range(min(2, len(path)), len(path) + 1)}
    silent = {context.source.marks[path] for path in spoken_for if path in context.source.marks}
    return [finding._replace(rule=rule.id) for finding in found if finding.mark not in silent]


def _not_checked(rule: Rule, context: Context, found: Finding) -> Finding:
    unknown = [p for p in rule.applies_to if context.stack.version(p) is None]
    return Finding(
        rule.id,
        "not-checked",
        f"not checked: {rule.title}",
        found.key,
        found.mark,
        because=(f"the version of {', '.join(unknown)} is not known for {context.stack.origin}",),
    )
