"""Runs the rules: decide rules fill absent and auto values, check rules judge complete ones."""

from collections.abc import Iterable

from grpo_recipes.contract.findings.finding import Finding, has_errors
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
        return _decide(context)
    views = (*(() if of_rows is context else _OF_VIEWS), *(() if first is of_rows else (_OF_ENVIRONMENT,)))
    own = [setting for setting in _decide(first).values() if not setting.key.startswith(views)]
    return context.settings.having(own)


def _decide(context: Context) -> Settings:
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
        findings = of_mixture([_check_each(source) for source in sources], context)
        if context.has_section("evaluation"):
            known = {(finding.rule, finding.message) for finding in findings}
            of_rows = _check_each(of_held_out(context))
            others = (finding for finding in of_rows if not finding.key.startswith(("dataset", "rewards")))
            findings += [finding for finding in others if (finding.rule, finding.message) not in known]
        return findings
    return _check_each(context)


def _check_each(context: Context) -> list[Finding]:
    """The findings for each of the environments."""
    views = of_environments(context)
    if views[0] is context:
        return _check_rules(context)
    return of_all_environments([_check_rules(view) for view in views], views)


def _check_rules(context: Context) -> list[Finding]:
    findings: list[Finding] = []
    stopped: list[Finding] = []
    for rule in rules():
        if rule.check is None:
            continue
        is_for = applies(rule, context.stack)
        if is_for is None:
            # A rule without findings for the recipe needs no note, whatever the version is.
            findings.extend(_not_checked(rule, context, finding) for finding in list(_judge(rule, context, []))[:1])
        elif is_for:
            findings.extend(_judge(rule, context, stopped))
    if stopped and not (context.refused or has_errors(findings) or any(s.refused for s in context.settings.values())):
        findings.extend(stopped)
    return findings


def _judge(rule: Rule, context: Context, stopped: list[Finding]) -> Iterable[Finding]:
    """The findings of a rule. stopped: gets a note if a value was missing, which may follow from a refused one."""
    if rule.check is None:
        return []
    findings: list[Finding] = []
    try:
        for finding in rule.check(context):
            findings.append(finding)  # a later one may need a value that is missing
    except NotJudged as missing:
        key = str(missing)
        because = f"it needs {context.recipe_key(key)}, which has no usable value here"
        stopped.append(context.not_checked(f"not checked: {rule.title}", key, because)._replace(rule=rule.id))
    if not findings:
        return findings
    spoken_for = {path[:depth] for path in context.refused for depth in range(min(2, len(path)), len(path) + 1)}
    silent = {context.source.marks[path] for path in spoken_for if path in context.source.marks}
    return [finding._replace(rule=rule.id) for finding in findings if finding.mark not in silent]


def _not_checked(rule: Rule, context: Context, finding: Finding) -> Finding:
    unknown = [p for p in rule.applies_to if context.stack.version(p) is None]
    return Finding(
        rule.id,
        "not-checked",
        f"not checked: {rule.title}",
        finding.key,
        finding.mark,
        because=(f"the version of {', '.join(unknown)} is not known for {context.stack.origin}",),
    )
