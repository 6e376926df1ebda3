"""The page of a recipe key, or of a field that is written under `trl`."""

import json

from grpo_recipes.facts.classified import classified_fields, fields_by_home
from grpo_recipes.facts.facts import Facts
from grpo_recipes.facts.released.history import Span, absent_after, absent_before, history
from grpo_recipes.facts.released.shipped import table
from grpo_recipes.resolve import rename
from grpo_recipes.rules.catalog import rules
from grpo_recipes.schemas.export import field_docs
from grpo_recipes.schemas.models import sections
from grpo_recipes.schemas.section import must_be_said, written_fields

# Sections whose keys are the fields of another class, by the class.
CLASSES = {"lora": "LoraConfig", "quantization": "BitsAndBytesConfig"}


def key_page(key: str, facts: Facts) -> str:
    """A key's meaning, its default, the field it is passed as with default and values by release, and what sets it."""
    section, _, name = key.rpartition(".")
    model = sections()[section]
    field = written_fields(model)[name]
    lines = [key, "", field_docs(model).get(name) or (sections().get(name, model).__doc__ or "")]
    if must_be_said(field):
        lines.append("default: none, the key is required")
    elif name not in sections():
        lines.append(f"default: {field.get_default(call_default_factory=True)!r} (format 1)")
    classified = fields_by_home().get(key)
    if classified is not None:
        lines += [f"kind: {classified.kind}", *_target_lines(classified.name, facts)]
    elif section in CLASSES and rename.target_key(key) != key:
        lines += [f"passed as: {CLASSES[section]}.{name}", *_history_lines(CLASSES[section], name)]
    lines += _owners(key)
    return "\n".join(lines)


def _target_lines(name: str, facts: Facts) -> list[str]:
    field = (facts.fields("GRPOConfig") or {}).get(name)
    lines = [f"passed as: GRPOConfig.{name}" + ("" if field is None else f": {field.annotation}")]
    if field is not None:
        lines.append(f"{facts.source('GRPOConfig')}: default {json.dumps(field.default)}")
    if field is not None and field.allowed is not None:
        lines[-1] += f", values {', '.join(map(str, field.allowed))}"
    lines += _history_lines("GRPOConfig", name)
    expressed = classified_fields()[name].expressed
    return lines + [f"  {row['because']}" for row in expressed if row.get("because")]


def _history_lines(owner: str, name: str) -> list[str]:
    """The default and values of each span of releases, and the releases without the field."""
    spans = history(owner, name)
    lines = (
        []
        if not spans or not absent_before(spans[0])
        else [f"  {spans[0].package} before {spans[0].first}: no such field"]
    )
    lines += [_span_line(span) for span in spans]
    if spans and absent_after(spans[-1]):
        lines.append(f"  {spans[-1].package} after {spans[-1].last}: no such field")
    return ["by release:", *lines] if lines else []


def _span_line(span: Span) -> str:
    releases = span.first if span.first == span.last else f"{span.first} to {span.last}"
    default = f"default {span.default}" if span.default else "no default"
    values = "" if span.allowed is None else f", values {', '.join(map(str, span.allowed))}"
    return f"  {span.package} {releases}: {default}{values}"


def _owners(key: str) -> list[str]:
    target = rename.target_key(key) or key
    return [f"decided by: {rule.id}, {rule.title}" for rule in rules() if target in rule.owns]


def field_page(name: str, facts: Facts) -> str | None:
    """The page of a GRPOConfig field without its own key, None if the field does not exist."""
    field = classified_fields().get(name)
    if field is None:
        return None
    lines = [f"trl.{name}", "", *([table("field_help")[name]] if name in table("field_help") else [])]
    if field.owner:
        lines.append(f"not set in a recipe: {field.owner}")
    elif field.has_value:
        lines.append(f"default: {field.value!r} (format 1)")
    lines.append(f"kind: {field.kind}")
    if field.when:
        lines.append("matters when: " + " and ".join(f"{n} {o} {v}" for n, o, v in field.when))
    return "\n".join([*lines, *_target_lines(name, facts)])
