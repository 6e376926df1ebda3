"""The arguments of vLLM's engine, and those that a recipe sets elsewhere or cannot set.

The table is `data/vllm_engine.json`, of one release; an installed vLLM is read from its own source.
"""

from collections.abc import Mapping
from functools import cache

from grpo_recipes.facts.facts import Facts
from grpo_recipes.facts.released.shipped import same_version, table
from grpo_recipes.facts.source.field import Field
from grpo_recipes.facts.source.package_facts import package_folder

MODULE, CLASS = "vllm.engine.arg_utils", "EngineArgs"


def engine_fields(facts: Facts) -> tuple[Mapping[str, Field], str] | None:
    """The fields of EngineArgs and their origin; None for a release that was not read."""
    version = facts.versions.get("vllm")
    if version is None:
        return None
    if facts.origins.get("vllm") == "installed":
        fields = _engine_fields_here()
        return None if fields is None else (fields, f"vllm {version} (installed)")
    data = table("vllm_engine")
    if not same_version(version, data["release"]):
        return None
    return {name: Field(name, annotation, None) for name, annotation in data["fields"].items()}, f"vllm {version}"


def engine_owners() -> Mapping[str, str]:
    """Arguments that a recipe cannot write under vllm_engine, with the alternative, or the reason for none."""
    owners: Mapping[str, str] = table("vllm_engine")["owned"]
    return owners


@cache
def _engine_fields_here() -> Mapping[str, Field] | None:
    """The engine's fields of the installed vLLM, read only for a recipe that writes such arguments."""
    folder = package_folder("vllm")
    if folder is None:
        return None
    from grpo_recipes.facts.source.package_source import PackageSource
    from grpo_recipes.facts.source.read import struct_fields

    class_source = PackageSource("vllm", folder).find_class(MODULE, CLASS)
    return None if class_source is None else struct_fields(class_source.node)
