"""The logits keyword that a model class takes in a release of transformers."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from grpo_recipes.facts.released.folded import nearest_release, value_at
from grpo_recipes.facts.released.shipped import table
from grpo_recipes.facts.released.windows import is_within
from grpo_recipes.facts.source.package_facts import LogitsKeyword, package_folder

TABLE = "logits_keyword"
PASSED_TABLE = "passed_logits_keyword"


def logits_keyword_of_release(version: str, model_class: str) -> LogitsKeyword | None:
    """The keyword of forward in this release, None for a class or release that was not read, or a release without the
    class.
    """
    data = table(TABLE)
    spans, releases = data["classes"].get(model_class), data["releases"]
    release = nearest_release(releases, version)
    if spans is None or release is None:
        return None
    return keyword_of(value_at(spans, release, {name: index for index, name in enumerate(releases)}))


def logits_keyword_installed(model_class: str) -> LogitsKeyword | None:
    """The keyword of forward in the installed transformers, None if the class is not found."""
    from grpo_recipes.facts.source.package_source import PackageSource
    from grpo_recipes.facts.source.read import read_logits_keyword

    module, folder = model_classes().get(model_class), package_folder("transformers")
    if module is None or folder is None:
        return None
    return read_logits_keyword(PackageSource("transformers", folder), module, model_class)


def logits_keyword_of_trl(trl: str) -> str | None:
    """The keyword by which this TRL's GRPOTrainer requests the last logits, None if it does not."""
    return next((row["keyword"] for row in table(PASSED_TABLE)["passed"] if is_within(trl, row["trl"])), None)


def keyword_of(value: Mapping[str, Any] | None) -> LogitsKeyword | None:
    """The entry of one span of the table, None for None; false values are omitted there."""
    if value is None:
        return None
    return LogitsKeyword(value["name"], value.get("translated", False), value.get("swallows", False))


@cache
def model_classes() -> Mapping[str, str]:
    """The classes whose forward is read, with their modules: `transformers.models.qwen2.modeling_qwen2`."""
    models = table(TABLE)["models"].items()
    return {name: f"transformers.models.{model}.modeling_{model}" for model, names in models for name in names}
