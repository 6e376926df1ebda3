"""Phase 2, rename: recipe keys become the names of the objects that take them; nothing is dropped."""

from functools import cache

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.facts.classified import classified_fields, fields_by_home
from grpo_recipes.facts.facts import Facts
from grpo_recipes.resolve.recipe_phase import where_written
from grpo_recipes.resolve.unknown_keys.suggestions import OPEN_SECTIONS, finding_of_own_key, finding_of_unknown_key
from grpo_recipes.rules._shared.settings import Setting, Settings
from grpo_recipes.rules.catalog import rules
from grpo_recipes.schemas.fast_accept import recipe_keys, section_keys
from grpo_recipes.yaml.compose import Source

# Recipe keys whose target is not the GRPOConfig field with the same home.
TARGETS = {
    "model.dtype": "model_init_kwargs.dtype",
    "model.model_revision": "model_init_kwargs.revision",
    "model.attn_implementation": "model_init_kwargs.attn_implementation",
    "model.trust_remote_code": "GRPOConfig.trust_remote_code",
    "lora.continue": "lora.continue",
}


@cache
def setting_names() -> frozenset[str]:
    """Every possible name of a setting; for an open section its owner, followed by a dot."""
    decided = (key for rule in rules() for key in rule.owns)
    fields = (f"GRPOConfig.{name}" for name in classified_fields())
    open_owners = (f"{owner}." for owner in OPEN_SECTIONS.values() if owner != "GRPOConfig")
    return frozenset([*recipe_keys(), *TARGETS.values(), *fields, *decided, *open_owners])


@cache
def target_key(key: str) -> str | None:
    """The target's key for a recipe key, None for one that stays a recipe key (dataset.path)."""
    if key in TARGETS:
        return TARGETS[key]
    if key in fields_by_home():
        return f"GRPOConfig.{fields_by_home()[key].name}"
    section, _, name = key.partition(".")
    if section in OPEN_SECTIONS and name:
        return f"{OPEN_SECTIONS[section]}.{name}"
    return None


def rename(settings: Settings, facts: Facts, source: Source) -> tuple[Settings, list[Finding]]:
    """The settings under the target's names, and findings for what the target lacks.

    Fields of `trl:` are expanded; extra keys of lora and quantization are checked against the classes of PEFT and
    transformers.
    """
    findings: list[Finding] = []
    renamed: list[Setting] = []
    for key, setting in settings.items():
        if key == "trl":
            continue
        target = target_key(key)
        renamed.append(setting if target is None else _rename(setting, target))
        finding = _extra_key(setting, facts, source)
        if finding is not None:
            findings.append(finding)
    own, problems = _trl_fields(settings, facts, source)
    findings.extend(problems)
    return Settings([*renamed, *own]), findings


def _rename(setting: Setting, key: str) -> Setting:
    return Setting(key, setting.value, setting.origin, setting.why, setting.path, setting.given, setting.refused)


def _extra_key(setting: Setting, facts: Facts, source: Source) -> Finding | None:
    """The finding for a key of an open section that the library's class does not take."""
    section, _, name = setting.key.partition(".")
    owner = OPEN_SECTIONS.get(section)
    if owner is None or not name or not setting.given or name in section_keys()[section]:
        return None
    fields = facts.fields(owner)
    if fields is None or name in fields:
        return None
    return finding_of_unknown_key(setting.path or (), setting.value, facts, source)


def _trl_fields(settings: Settings, facts: Facts, source: Source) -> tuple[list[Setting], list[Finding]]:
    """The fields written under `trl:`, and those that are not allowed there."""
    field_settings: list[Setting] = []
    findings: list[Finding] = []
    fields = facts.fields("GRPOConfig")
    block = settings["trl"]
    for name, value in (block.value if isinstance(block.value, dict) else {}).items():
        path = ("trl", name)
        owned = finding_of_own_key(path, source)
        if owned is not None:
            findings.append(owned)
        elif fields is not None and not _is_of_the_format(name, facts):
            findings.append(finding_of_unknown_key(path, value, facts, source))
        else:
            origin = where_written(source, path) if path in source.marks else block.origin
            field_settings.append(Setting(f"GRPOConfig.{name}", value, origin, path=path, given=True))
    return field_settings, findings


def _is_of_the_format(name: str, facts: Facts) -> bool:
    """Whether the format knows a GRPOConfig field, of any release, that was not removed."""
    return name in classified_fields() and facts.removal_of("GRPOConfig", name) is None
