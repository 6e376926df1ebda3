"""Which logits keyword a model class takes in a release of transformers."""

from collections.abc import Mapping
from typing import Any

from grpo_recipes.facts.released.folded import nearest_release, value_at
from grpo_recipes.facts.released.shipped import table
from grpo_recipes.facts.released.windows import is_within
from grpo_recipes.facts.source.logits_keyword import LogitsKeyword
from grpo_recipes.facts.source.package_folder import package_folder

TABLE = "logits_keyword"
PASSED_TABLE = "passed_logits_keyword"


def shipped_logits_keyword(version: str, model_class: str) -> LogitsKeyword | None:
    """What forward takes in this release, None for a class or a release that was not read or lacks the class."""
    data = table(TABLE)
    spans, releases = data["classes"].get(model_class), data["releases"]
    release = nearest_release(releases, version)
    if spans is None or release is None:
        return None
    return keyword_of(value_at(spans, release, {name: place for place, name in enumerate(releases)}))


def installed_logits_keyword(model_class: str) -> LogitsKeyword | None:
    """What forward takes in the transformers that is installed here, None where the class is not found."""
    from grpo_recipes.facts.released.model_classes import (
        model_module,  # parsing source is for a release that was not read
    )
    from grpo_recipes.facts.source.package_source import PackageSource
    from grpo_recipes.facts.source.read_logits import read_logits_keyword

    module, folder = model_module(model_class), package_folder("transformers")
    if module is None or folder is None:
        return None
    return read_logits_keyword(PackageSource("transformers", folder), module, model_class)


def releases_with_class(model_class: str) -> tuple[str, str] | None:
    """The first and the last release of transformers that was read and has the class; None for an unknown one."""
    spans = table(TABLE)["classes"].get(model_class)
    return (str(spans[0][0]), str(spans[-1][1])) if spans else None


def passed_logits_keyword(trl: str) -> str | None:
    """The keyword by which GRPOTrainer of this TRL asks for the last logits, None where it asks for none."""
    return next((row["keyword"] for row in table(PASSED_TABLE)["passed"] if is_within(trl, row["trl"])), None)


def to_json_value(keyword: LogitsKeyword) -> dict[str, object]:
    """One span's value in the table; what is false is left out."""
    value: dict[str, object] = {"name": keyword.name}
    return (
        value | ({"translated": True} if keyword.translated else {}) | ({"swallows": True} if keyword.swallows else {})
    )


def keyword_of(value: Mapping[str, Any] | None) -> LogitsKeyword | None:
    """What `to_json_value` wrote, None for None."""
    if value is None:
        return None
    return LogitsKeyword(value["name"], value.get("translated", False), value.get("swallows", False))
