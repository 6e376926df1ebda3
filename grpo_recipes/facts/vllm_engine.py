"""Which arguments vLLM's engine takes, and which of them a recipe says elsewhere or cannot say.

The table is `data/vllm_engine.json`, of one release; an installed vLLM is read from its own source.
"""

from collections.abc import Mapping
from functools import cache

from grpo_recipes.facts.facts import Facts
from grpo_recipes.facts.released.shipped import same_version, table
from grpo_recipes.facts.source.field import Field
from grpo_recipes.facts.source.package_folder import package_folder

MODULE, CLASS = "vllm.engine.arg_utils", "EngineArgs"


def engine_fields(facts: Facts) -> tuple[Mapping[str, Field], str] | None:
    """The fields of EngineArgs and where they were read; None for a release that was not."""
    version = facts.versions.get("vllm")
    if version is None:
        return None
    if facts.origins.get("vllm") == "installed":
        fields = _installed()
        return None if fields is None else (fields, f"vllm {version} (installed)")
    data = table("vllm_engine")
    if not same_version(version, data["release"]):
        return None
    return {name: Field(name, annotation, None) for name, annotation in data["fields"].items()}, f"vllm {version}"


def engine_owners() -> Mapping[str, str]:
    """Arguments that a recipe does not write under vllm_engine, with what to write instead, or why there is nothing."""
    owners: Mapping[str, str] = table("vllm_engine")["owned"]
    return owners


@cache
def _installed() -> Mapping[str, Field] | None:
    """Only a recipe that writes such arguments pays for reading the class."""
    folder = package_folder("vllm")
    if folder is None:
        return None
    from grpo_recipes.facts.source.package_source import PackageSource
    from grpo_recipes.facts.source.read import struct_fields

    found = PackageSource("vllm", folder).find_class(MODULE, CLASS)
    return None if found is None else struct_fields(found.node)
