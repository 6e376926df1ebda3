"""Refuses values that the target cannot express, since the run would be a different experiment."""

from collections.abc import Mapping, Sequence

from grpo_recipes.contract.findings.finding import Finding, Patch, path_text
from grpo_recipes.contract.findings.wording import flow, value_text
from grpo_recipes.facts.classified import ClassifiedField, classified_fields, matters
from grpo_recipes.facts.expression import (
    PACKAGES,
    Expression,
    NotExpressed,
    Passed,
    Target,
    expression,
    is_of_trl_alone,
    releases_that_express,
    spans_text,
)
from grpo_recipes.facts.facts import Facts
from grpo_recipes.rules._shared.context import finding_at
from grpo_recipes.rules._shared.settings import FORMAT_ORIGIN, Setting, Settings
from grpo_recipes.yaml.compose import Source

NOT_EXPRESSED = "FCT004"


def target_of(facts: Facts) -> Target | None:
    """The target that values are expressed on: of an unknown transformers, without its fields; None without TRL's."""
    fields = facts.fields("GRPOConfig") or facts.own_fields("GRPOConfig")
    return None if fields is None else Target(facts.versions, fields)


def expressions(settings: Settings, facts: Facts) -> dict[str, Expression]:
    """How the target expresses every GRPOConfig value that was written or that matters, by field name.

    Of an unknown transformers, values of other fields than TRL's are passed as they are.
    """
    target, values = target_of(facts), field_values(settings)
    if target is None:
        return {}
    is_whole, expressed = facts.fields("GRPOConfig") is not None, {}
    for name, field in classified_fields().items():
        setting = settings.get(f"GRPOConfig.{name}")
        if setting is not None and setting.value != "auto" and (setting.given or matters(field, values)):
            is_known = is_whole or is_of_trl_alone(name)
            as_it_is = Passed(f"GRPOConfig.{name}", setting.value)
            expressed[name] = expression(field, setting.value, values, target) if is_known else as_it_is
    return expressed


def keys_to_pass(settings: Settings, expressed: Mapping[str, Expression]) -> dict[str, Passed]:
    """The values to pass for GRPOConfig, by the target's key; a null only if the release must be told.

    expressed: expressions() of the settings, {} if the target's fields are unknown and everything is passed as it is.
    """
    by_field = expressed
    if not by_field:
        values = field_values(settings)
        by_field = {
            name: Passed(f"GRPOConfig.{name}", setting.value)
            for name, field in classified_fields().items()
            if (setting := settings.get(f"GRPOConfig.{name}")) is not None
            and setting.value != "auto"
            and (setting.given or matters(field, values))
        }
    return {
        passed.key: passed
        for name, passed in by_field.items()
        if isinstance(passed, Passed)
        and (passed.value is not None or passed.because or settings[f"GRPOConfig.{name}"].given)
    }


def not_expressed(
    expressed: Mapping[str, Expression], settings: Settings, facts: Facts, source: Source
) -> list[Finding]:
    """Findings for experiment values, written or of the format, and for others that were written.

    expressed: expressions() of the settings.
    """
    findings = []
    for name, answer in expressed.items():
        field, setting = classified_fields()[name], settings[f"GRPOConfig.{name}"]
        matters = setting.given or field.kind == "experiment"
        if isinstance(answer, NotExpressed) and matters and not setting.refused:
            findings.append(_finding(field, setting, answer, settings, facts, source))
    return findings


def _finding(
    field: ClassifiedField, setting: Setting, refusal: NotExpressed, settings: Settings, facts: Facts, source: Source
) -> Finding:
    path = setting.path or ()
    because = [refusal.because]
    if not setting.given:
        because.append(f"{path_text(path)} is {value_text(setting.value)} in format 1, unless a recipe sets it")
    texts, patch = _way_out(field, setting, refusal.values)
    target = target_of(facts)
    assert target is not None, "a value was refused for fields that are known"
    package, releases = releases_that_express(field, setting.value, field_values(settings), target)
    if releases:
        texts.append(f"{package} {spans_text(releases, package)}")
    return finding_at(
        source,
        NOT_EXPRESSED,
        path,
        f"{facts.source(PACKAGES[package])} cannot express {field.name} {value_text(setting.value)}",
        because=tuple(because),
        fix=", or ".join(texts) or None,
        patch=tuple(patch),
    )


def _way_out(field: ClassifiedField, setting: Setting, values: Sequence[object]) -> tuple[list[str], list[Patch]]:
    """An alternative: a value that the release can express, or removing a written value that has no effect."""
    path = setting.path or ()
    if not path:
        return [], []
    if values:
        value = next((value for value in values if value is not None), None)
        return [f"{path[-1]}: {flow(value)}"], [Patch(path, value)]
    if setting.given and (field.kind != "experiment" or not field.home):
        return [f"remove {path[-1]}"], [Patch(path, remove=True)]
    return [], []


# Names in the table's conditions that are not fields, and the settings they refer to.
OTHER_VALUES = {
    "processes": "world.num_processes",
    "optimizer_steps_per_generation": "grpo.optimizer_steps_per_generation",
}


def pin(settings: Settings) -> Settings:
    """The settings with format values for experiment fields that no section has and nobody wrote."""
    fields = classified_fields()
    values = {name: field.value for name, field in fields.items() if field.has_value} | field_values(settings)
    pinned = [
        Setting(f"GRPOConfig.{name}", field.value, FORMAT_ORIGIN, path=("trl", name))
        for name, field in fields.items()
        if field.has_value and f"GRPOConfig.{name}" not in settings and matters(field, values)
    ]
    return settings.having(pinned)


def field_values(settings: Settings) -> dict[str, object]:
    """GRPOConfig values by name, as the table's conditions see them, and six that are not fields.

    rewards: their number. tools: their number, an environment counts as one, None without any. processes: of the run.
    optimizer_steps_per_generation, images: of the recipe. shims: the names of the selected ones.
    """
    values = settings.under("GRPOConfig")
    rewards = settings["rewards"].value if "rewards" in settings else []
    values["rewards"] = len(rewards) if isinstance(rewards, list) else 0
    tools = settings["tools"].value if "tools" in settings else []
    called = len(tools) if isinstance(tools, list) else 0
    several = settings["environments"].value if "environments" in settings else []
    values["tools"] = called + (bool(several) or "environment.python" in settings) or None
    sources = settings["datasets"].value if "datasets" in settings else []
    of_sources = [source.get("images") for source in sources or () if isinstance(source, dict)]  # type: ignore[attr-defined]
    images = settings["dataset.images"].value if "dataset.images" in settings else None
    values["images"] = images or next(filter(None, of_sources), None)
    for name, key in OTHER_VALUES.items():
        values[name] = settings[key].value if key in settings else None
    values["shims"] = tuple(settings.under("shims"))
    return values
