"""Checks values against the target's own source: closed sets of words, and plain types."""

from collections.abc import Mapping

from grpo_recipes.contract.findings.finding import Finding, Patch, path_text, value_at
from grpo_recipes.contract.findings.wording import entry, nearest_words, value_text
from grpo_recipes.facts.classified import classified_fields, matters
from grpo_recipes.facts.expression import Expression, Passed
from grpo_recipes.facts.facts import Facts
from grpo_recipes.facts.source.field import Field, plain_types
from grpo_recipes.resolve.inexpressible import expressions, field_values
from grpo_recipes.resolve.unknown_keys.other_names import algorithm_answer
from grpo_recipes.rules._shared.context import finding_at
from grpo_recipes.rules._shared.plain_values import expected_type
from grpo_recipes.rules._shared.settings import Setting, Settings
from grpo_recipes.schemas.other_names import algorithm_row
from grpo_recipes.yaml.compose import Source

NOT_ALLOWED = "FCT005"
WRONG_FIELD_TYPE = "FCT006"
AMBIGUOUS_WORD = "FCT007"
NO_EFFECT = "FCT008"

OWNERS = ("GRPOConfig", "LoraConfig", "BitsAndBytesConfig")


def value_findings(settings: Settings, facts: Facts, source: Source, *, left_over: bool = False) -> list[Finding]:
    """One finding for each value that the target's class silently accepts and fails on later.

    left_over: only judge values written as auto that no rule decided.
    """
    findings = []
    fields = {owner: facts.fields(owner) or facts.own_fields(owner) or {} for owner in OWNERS}
    expressed: Mapping[str, Expression] | None = None
    for key, setting in settings.items():
        owner, _, name = key.partition(".")
        field = fields[owner].get(name) if owner in OWNERS else None
        if field is None or setting.refused or (setting.value == "auto") != left_over:
            continue
        if left_over and not setting.given:
            continue  # a rule could not decide, since a value that it depends on was refused
        finding = _not_allowed(field, owner, setting, facts, source) or _wrong_type(field, setting, source)
        if finding is None:
            continue
        if expressed is None:
            expressed = expressions(settings, facts)
        if owner != "GRPOConfig" or _is_passed_as_written(expressed.get(name)):
            findings.append(_without_auto(finding, setting) if left_over and finding.fix is None else finding)
    return findings


def _without_auto(finding: Finding, setting: Setting) -> Finding:
    """The finding for an auto that nothing decides, suggesting the field's own default."""
    path = setting.path or ()
    return finding._replace(fix=f"remove {path_text(path[-1:])}", patch=(Patch(path, remove=True),))


def _is_passed_as_written(expression: Expression | None) -> bool:
    """Whether the target's field gets the recipe's own value, and so judges it: not if it lacks or translates the
    value.
    """
    return expression is None or (isinstance(expression, Passed) and not expression.because)


MOST_WORDS = 12
"""The size above which a message only shows the words that begin like the value."""


def choice_text(choice: object) -> str:
    """A choice as a recipe writes it."""
    return choice if isinstance(choice, str) else value_text(choice)


def _same(value: object, choice: object) -> bool:
    return type(value) is type(choice) and value == choice


def _not_allowed(field: Field, owner: str, setting: Setting, facts: Facts, source: Source) -> Finding | None:
    value = setting.value
    if field.allowed is None or value is None or any(_same(value, choice) for choice in field.allowed):
        return None
    words = [str(choice) for choice in field.allowed if isinstance(choice, str)]
    longer = [word for word in words if word.startswith(str(value))]
    article = _algorithm(field.name, setting, source)
    close = [] if article else _nearest(str(value), words)
    known = field.allowed if len(field.allowed) <= MOST_WORDS or not longer else longer
    these = "" if known is field.allowed else f"{len(field.allowed)} values, among them "
    because = [f"{facts.source(owner)} supports {these}{', '.join(map(choice_text, known))}"]
    if article:
        because += article[0]
    elif owner == "GRPOConfig":
        because.append("GRPOConfig may accept it, but the run fails when the value is first used")
    return finding_at(
        source,
        NOT_ALLOWED,
        setting.path or (),
        f"{field.name} {value_text(value)} is not supported",
        because=tuple(because),
        fix=article[1] if article else None,
        patch=article[2] if article else (Patch(setting.path, close[0]),) if close and setting.path else (),
    )


def _algorithm(name: str, setting: Setting, source: Source) -> tuple[tuple[str, ...], str, tuple[Patch, ...]] | None:
    """The because, fix and patches for an algorithm's name that is not a value here; None for any other word."""
    row = algorithm_row(setting.value) if setting.path and setting.path[0] == "grpo" else None
    if row is None or row.get("set", {}).get(name) == setting.value:
        return None
    return algorithm_answer(setting.path or (), row, source)


# The names of closed-set values in other libraries and papers.
OTHER_WORDS = {
    "adamw": "adamw_torch",
    "adamwfused": "adamw_torch_fused",
    "fusedadamw": "adamw_torch_fused",
    "pagedadamw": "paged_adamw_32bit",
    "cosinewithwarmup": "cosine",
    "cosineannealing": "cosine",
    "linearwithwarmup": "linear",
    "constantwithoutwarmup": "constant",
    "wsd": "warmup_stable_decay",
}


def _nearest(value: str, words: list[str]) -> list[str]:
    """The intended word: the usual one of its family, else one with a typo, else the only longer one; empty otherwise.

    A word that resembles several of them, or none, is left to the reader.
    """
    letters = _letters(value)
    usual = OTHER_WORDS.get(letters)
    if usual in words:
        return [usual]
    same = [word for word in words if word.lower().replace("_", "") == letters]
    longer = [word for word in words if word.startswith(value)]
    if same or len(longer) > 1:
        return same[:1]
    return longer or nearest_words(value.lower(), words, cutoff=0.75)


def _letters(value: str) -> str:
    return value.lower().replace("-", "").replace("_", "").replace(" ", "")


def _wrong_type(field: Field, setting: Setting, source: Source) -> Finding | None:
    """A value under `trl:`, `lora` or `quantization` of a type that the field's annotation does not allow."""
    value, path = setting.value, setting.path or ()
    if value is None or not setting.given:
        return None
    kinds, must = plain_types(field.annotation), expected_type(field.annotation, value)
    if kinds is None or must is None or (field.allowed and value in field.allowed):
        return None
    right: object = _boolean(value) if "bool" in kinds and path in source.words else None
    if kinds == ["list"] and not isinstance(value, dict):
        right = [value]
    return finding_at(
        source,
        WRONG_FIELD_TYPE,
        path,
        f"{field.name} is {value_text(value)}, but must be {must}",
        because=(f"it is declared {field.annotation}",),
        patch=(Patch(path, right),) if right is not None else (),
    )


def _boolean(word: object) -> bool:
    return str(word).lower() in ("yes", "on", "y")


def ambiguous_words(source: Source) -> list[Finding]:
    """Findings for unquoted yes, no, on, off in free maps, where both a word and a boolean are possible."""
    free = {
        ("distributed", "deepspeed"),
        ("generation", "chat_template_kwargs"),
        ("training", "gradient_checkpointing_kwargs"),
        ("training", "lr_scheduler_kwargs"),
    }
    findings = []
    for path in sorted(source.words, key=str):
        deep = path[0] == "trl" and len(path) > 2
        options = path[0] == "rewards" and len(path) > 3 and (path[2] == "options" or path[3] == "request")
        if not (deep or options or (path[:2] in free and len(path) > 2)):
            continue
        node = value_at(source.values, path)
        meant = _boolean(node)
        boolean = str(meant).lower() if isinstance(path[-1], int) else entry(path, str(meant).lower())
        findings.append(
            finding_at(
                source,
                AMBIGUOUS_WORD,
                path,
                f"{path_text(path)} is the word {node}",
                because=("YAML 1.1 reads it as a boolean, YAML 1.2 as text",),
                fix=f'{boolean}, or "{node}" for the word',
                patch=() if options else (Patch(path, meant),),  # the options of a reward are words as often
            )
        )
    return findings


# Reasons for fields that only matter with tools or images.
NOT_GIVEN = {
    "tools": "it only matters with `tools` or an `environment`, and the recipe has neither",
    "images": "it only matters with images, and the recipe has none",
}


def without_effect(settings: Settings, source: Source) -> list[Finding]:
    """Warnings for values that the user wrote and that have no effect, given the others."""
    values = field_values(settings)
    findings = []
    for name, field in classified_fields().items():
        setting = settings.get(f"GRPOConfig.{name}")
        if setting is None or not setting.given or setting.refused or setting.value in (None, {}, []):
            continue
        missed = [condition for condition in field.when if not matters(field._replace(when=(condition,)), values)]
        if not missed or missed[0][0] == name:
            continue
        other, operator, operand = missed[0]
        met = settings.get(f"GRPOConfig.{other}")
        if met is not None and value_at(source.values, met.path or ()) == "auto":
            continue  # it has an effect on a different stack
        if other in settings and settings[other].refused:
            continue  # the value that it would act on is already reported
        here = "here it is not set" if values.get(other) is None else f"here it is {value_text(values[other])}"
        why = f"it matters only when {other} {operator} {value_text(operand)}, {here}"
        findings.append(
            finding_at(
                source,
                NO_EFFECT,
                setting.path or (),
                f"{name} has no effect",
                because=(NOT_GIVEN.get(other, why),),
                patch=(Patch(setting.path, remove=True),) if setting.path else (),
                severity="warning",
            )
        )
    return findings
