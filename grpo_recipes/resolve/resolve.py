"""Runs the six phases in order: recipe, rename, decide, pin, check, render. All findings come from one pass."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from grpo_recipes.contract.findings.finding import Finding, by_place, has_errors, path_text, paths_moved_to
from grpo_recipes.contract.host.engines import ENGINES
from grpo_recipes.facts.expression import Expression
from grpo_recipes.facts.facts import facts_for
from grpo_recipes.resolve.engine import check, decide
from grpo_recipes.resolve.field_values import ambiguous_words, value_findings, without_effect
from grpo_recipes.resolve.inexpressible import expressions, keys_to_pass, not_expressed, pin
from grpo_recipes.resolve.mixture import of_held_out, of_sources
from grpo_recipes.resolve.recipe_phase import check_recipe, other_programs, recipe_settings
from grpo_recipes.resolve.rename import rename, setting_names
from grpo_recipes.resolve.schema_findings import MISSING_KEY
from grpo_recipes.resolve.stack_findings import stack_findings
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.machines import OPTIONAL, packages_not_needed
from grpo_recipes.rules._shared.settings import Settings
from grpo_recipes.stack.stack import Stack
from grpo_recipes.yaml.compose import Source, compose
from grpo_recipes.yaml.ids import DUPLICATE_KEY

if TYPE_CHECKING:
    from grpo_recipes.contract.plan import Plan
from collections.abc import Iterator

from grpo_recipes.facts.facts import Facts
from grpo_recipes.rules._shared.settings import Setting
from grpo_recipes.user_files.ancestor import KEY, StartingPoint, ancestor_of, continues, why_no_model


class Resolution(NamedTuple):
    """The result for a recipe on a stack. context is None if the recipe could not be read far enough.

    expressed: how the target expresses the GRPOConfig values, by field name; {} if its fields are unknown. accepted:
    rules whose errors --accept turned into warnings, as in the findings.
    """

    file: str
    context: Context | None
    findings: tuple[Finding, ...]
    expressed: Mapping[str, Expression] = MappingProxyType({})
    accepted: tuple[str, ...] = ()

    @property
    def refused(self) -> bool:
        """Whether an error prevents the start."""
        return has_errors(self.findings)


def resolve(file: str, stack: Stack, overrides: Sequence[str] = (), content: str | None = None) -> Resolution:
    """The settings and findings of a recipe file on a stack. content: replaces the file's own text."""
    source, findings = compose(file, overrides, content)
    if source is None:
        return Resolution(file, None, tuple(by_place(findings)))
    return resolve_source(source, stack, findings)


def resolve_source(source: Source, stack: Stack, findings: Sequence[Finding] = ()) -> Resolution:
    """The settings and findings of a recipe that was already read. findings: from reading it."""
    foreign = other_programs(source)
    if foreign is not None:
        return Resolution(source.file, None, (foreign,))
    source = from_the_newest(source)
    stack = _of_the_nodes(stack, source)
    file, facts = source.file, facts_for(stack)
    findings = [*findings]
    checked = check_recipe(source, facts)
    refused_by_reader = {finding.key for finding in findings if finding.key and finding.severity == "error"}
    twice = tuple(finding.key for finding in findings if finding.rule == DUPLICATE_KEY)
    of_the_schema = [f for f in checked.findings if not (f.rule == MISSING_KEY and _is_below(f.key, twice))]
    findings += [finding for finding in of_the_schema if finding.key not in refused_by_reader]
    if checked.recipe is None:
        return Resolution(file, None, tuple(by_place([*stack_findings(stack, facts, OPTIONAL), *findings])))
    settings = add_run_settings(recipe_settings(checked.recipe, source, checked.refused), source, facts)
    start = Context(settings, stack, facts, source, checked.refused, names=setting_names())
    context, expressed, more = _phases(start)
    more = [finding for finding in more if not _is_below(finding.key, twice)]  # the intended one is unknown
    of_the_stack = stack_findings(stack, facts, packages_not_needed(context))
    return Resolution(file, context, tuple(by_place([*of_the_stack, *findings, *more])), expressed)


def _is_below(key: str, above: tuple[str, ...]) -> bool:
    """Whether a key is one of those above, or within one of them."""
    return any(key == parent or key.startswith((f"{parent}.", f"{parent}[")) for parent in above)


def _of_the_nodes(stack: Stack, source: Source) -> Stack:
    """The stack where the run trains: this machine's hardware says nothing about a cluster's nodes."""
    launch = source.values.get("launch")
    kind = ENGINES.get(str(launch.get("engine"))) if isinstance(launch, dict) else None
    if stack.declared or kind is None or not kind.trains_elsewhere:
        return stack
    return stack._replace(
        gpus=None, avx512_bf16=None, driver=None, c_compiler=None, python_headers=None, origin="the cluster"
    )


def _phases(start: Context) -> tuple[Context, Mapping[str, Expression], list[Finding]]:
    """Rename to check. A value that one phase refused is not judged again by a later one."""
    facts, source = start.facts, start.source
    settings, findings = rename(start.settings, facts, source)
    findings += value_findings(settings, facts, source)
    findings += ambiguous_words(source)
    settings = _refusing(settings, findings)
    settings = pin(decide(start._replace(settings=settings)))
    left_over = value_findings(settings, facts, source, left_over=True)
    settings, findings = _refusing(settings, left_over), [*findings, *left_over]
    context, expressed = start._replace(settings=settings), expressions(settings, facts)
    findings += not_expressed(expressed, settings, facts, source)
    judged = check(context)
    refused = {finding.key for finding in [*findings, *judged] if finding.severity == "error"}
    idle = [finding for finding in without_effect(settings, source) if finding.key not in refused]
    return context, expressed, [*findings, *idle, *judged]


def _refusing(settings: Settings, findings: Sequence[Finding]) -> Settings:
    keys = {finding.key for finding in findings if finding.severity == "error"}
    keys |= {path_text(path) for path in paths_moved_to(findings)}
    if not keys:
        return settings
    return settings.having(s._replace(refused=True) for s in settings.values() if path_text(s.path or ()) in keys)


def plan_of(resolution: Resolution) -> "Plan":
    """The plan of a recipe without errors. Raises ValueError if there are any."""
    if resolution.context is None or resolution.refused:
        raise ValueError("a recipe with errors has no plan")
    from grpo_recipes.resolve.planning.build_plan import build_plan  # validate does not pay for the plan's classes

    notes = tuple(f"{finding.severity}: {finding.message} [{finding.rule}]" for finding in resolution.findings)
    expressed = resolution.expressed
    keys = keys_to_pass(resolution.context.settings, expressed)
    sources, held_out = of_sources(resolution.context), of_held_out(resolution.context)
    plan = build_plan(resolution.context, expressed, keys, notes, sources, held_out)
    return replace(plan, accepted=resolution.accepted)


_MODEL = "model.model_name_or_path"
_MODEL_PATH = ("model", "model_name_or_path")


def from_the_newest(source: Source) -> Source:
    """The recipe without a parent's model if a nearer file names a run to start from."""
    run, model = source.marks.get(KEY), source.marks.get(_MODEL_PATH)
    if run is None or model is None or _distance(source, run.file) >= _distance(source, model.file):
        return source
    section = source.values["model"]
    named = section["from_run"]  # type: ignore[index]
    if not (isinstance(named, str) and named):
        return source  # null names none, and any other value is refused on its own
    other_keys = {key: value for key, value in section.items() if key != _MODEL_PATH[1]}  # type: ignore[attr-defined]
    marks = {path: mark for path, mark in source.marks.items() if path != _MODEL_PATH}
    return source._replace(values={**source.values, "model": other_keys}, marks=marks)


def _distance(source: Source, file: str) -> int:
    """The number of files between the recipe and one of them; 0 or less for anything but a file."""
    return source.files.index(file) if file in source.files else -1


def add_run_settings(settings: Settings, source: Source, facts: Facts) -> Settings:
    """The settings with those of the run in model.from_run; unchanged for a recipe that only names a model.

    If the run cannot be read, or names no model, the model counts as refused: one rule reports it, and no other judges
    it.
    """
    named = settings.get(".".join(KEY))
    if named is None or named.value is None or named.refused:
        return settings
    ancestor = ancestor_of(source)
    if not isinstance(ancestor, StartingPoint) or (not settings[_MODEL].given and why_no_model(ancestor) is not None):
        return settings.having([settings[_MODEL]._replace(value="-", refused=True)])
    return settings.having(_inherit(settings, source, ancestor, facts))


def _inherit(settings: Settings, source: Source, point: StartingPoint, facts: Facts) -> Iterator[Setting]:
    if point.base is not None and not settings[_MODEL].given:
        path, revision = point.base
        yield _of(settings, _MODEL, path, point)
        if revision is not None and not settings["model.model_revision"].given:
            yield _of(settings, "model.model_revision", revision, point)
    template = "tokenizer.chat_template_path"
    if point.chat_template is not None and not settings[template].given:
        yield _of(settings, template, point.chat_template, point)
    tokens, known = settings["tokenizer.add_tokens"], point.added_tokens
    if isinstance(tokens.value, list) and set(tokens.value) & known:
        yield _of(settings, tokens.key, [token for token in tokens.value if token not in known], point)
    if continues(source):
        for name, value in point.shape(facts).items():
            key = f"lora.{name}"
            if key not in settings or not settings[key].given:
                yield _of(settings, key, value, point)


def _of(settings: Settings, key: str, value: object, point: StartingPoint) -> Setting:
    before = settings.get(key)
    path = before.path if before is not None else tuple(key.split("."))
    return Setting(key, value, f"run {point.name}", path=path)
