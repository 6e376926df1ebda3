"""The history of a field over all releases, and the tasks of reasoning-gym."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from grpo_recipes.facts.released.shipped import releases_with_facts, table

SOURCES = {
    "GRPOConfig": (("trl", "GRPOConfig"), ("transformers", "TrainingArguments")),
    "LoraConfig": (("peft", "LoraConfig"),),
    "BitsAndBytesConfig": (("transformers", "BitsAndBytesConfig"),),
}


@dataclass(frozen=True, slots=True)
class Span:
    """Consecutive releases with the same default and values. default: as JSON, "" for none; allowed: None for any."""

    package: str
    first: str
    last: str
    default: str
    allowed: tuple[object, ...] | None


def history(owner: str, name: str) -> list[Span]:
    """The spans of a field, oldest first; those of the base class of GRPOConfig come before TRL's own.

    owner: GRPOConfig, LoraConfig or BitsAndBytesConfig. Empty for a field that no known release has.
    """
    spans: list[Span] = []
    for package, class_name in SOURCES[owner]:
        rows = table(package)["owners"].get(class_name, {}).get("fields", {}).get(name)
        spans = [*(_merge(package, rows) if rows else []), *spans]
        if spans and not absent_before(spans[0]):
            break
    return spans


def absent_before(span: Span) -> bool:
    """Whether known releases before it lack the field."""
    return releases_with_facts(span.package)[0] != span.first


def absent_after(span: Span) -> bool:
    """Whether known releases after it lack the field."""
    return releases_with_facts(span.package)[-1] != span.last


def _merge(package: str, rows: list[list[Any]]) -> list[Span]:
    """Merges spans that differ only in the declared type."""
    releases = releases_with_facts(package)
    spans: list[Span] = []
    for first, last, value in rows:
        default = json.dumps(value["default"]) if "default" in value else ""
        allowed = value.get("allowed")
        made = Span(package, first, last, default, None if allowed is None else tuple(allowed))
        before = spans[-1] if spans else None
        follows = before is not None and releases.index(before.last) + 1 == releases.index(first)
        if before is not None and follows and (before.default, before.allowed) == (made.default, made.allowed):
            spans[-1] = Span(package, before.first, last, default, made.allowed)
        else:
            spans.append(made)
    return spans


TABLE = "reasoning_gym"


class ConfigKey(NamedTuple):
    """An option of a task. type: as the package declares it. default: None also if JSON cannot represent it."""

    type: str
    default: object


def gym_release() -> str:
    """The release that the table describes."""
    return str(table(TABLE)["release"])


def task_names() -> tuple[str, ...]:
    """All tasks, in alphabetical order."""
    return tuple(table(TABLE)["tasks"])


def config_keys(task: str) -> Mapping[str, ConfigKey] | None:
    """The options of a task, None for an unknown task."""
    options = table(TABLE)["tasks"].get(task)
    return None if options is None else {name: ConfigKey(*option) for name, option in options.items()}
