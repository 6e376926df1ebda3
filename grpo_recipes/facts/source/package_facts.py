"""What one release of one package says about the classes that grpo-run fills."""

from collections.abc import Mapping
from typing import NamedTuple

from grpo_recipes.facts.source.field import Field, from_json_value, to_json_value


class OwnerFacts(NamedTuple):
    """A class: the fields that its own package declares, and its bases that other packages define."""

    bases: tuple[str, ...]
    fields: Mapping[str, Field]


class PackageFacts(NamedTuple):
    """The classes of one release, by their names."""

    package: str
    version: str
    owners: Mapping[str, OwnerFacts]


# Where each class is defined, its newest place first.
MODULES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "trl": {
        "GRPOConfig": ("trl.trainer.grpo_config",),
        "GRPOTrainer": ("trl.trainer.grpo_trainer",),
        "VLLMClient": ("trl.generation.vllm_client", "trl.extras.vllm_client"),
    },
    "transformers": {
        "TrainingArguments": ("transformers.training_args",),
        "BitsAndBytesConfig": ("transformers.utils.quantization_config",),
    },
    "peft": {"LoraConfig": ("peft.tuners.lora.config",)},
    "vllm": {"SamplingParams": ("vllm.sampling_params",)},
}
# The method whose parameters are the fields of a class that is no dataclass.
METHODS: Mapping[str, str] = {"GRPOTrainer": "__init__", "VLLMClient": "generate"}
NOT_IN_ALL_RELEASES = frozenset({"VLLMClient"})


def package_to_json_value(facts: PackageFacts) -> dict[str, object]:
    """The facts as JSON, as the shipped data and the cache store them."""
    owners = {
        owner: {
            "bases": list(one.bases),
            "fields": {name: to_json_value(field) for name, field in one.fields.items()},
        }
        for owner, one in facts.owners.items()
    }
    return {"package": facts.package, "version": facts.version, "owners": owners}


def package_from_json_value(value: Mapping[str, object]) -> PackageFacts:
    """What `package_to_json_value` wrote. Raises KeyError, TypeError or AttributeError for another shape."""
    owners, package, version = value["owners"], value["package"], value["version"]
    if not isinstance(owners, dict) or not isinstance(package, str) or not isinstance(version, str):
        raise TypeError("facts have a package, a version and owners")
    return PackageFacts(
        package,
        version,
        {
            owner: OwnerFacts(
                tuple(one["bases"]),
                {name: from_json_value(name, field) for name, field in one["fields"].items()},
            )
            for owner, one in owners.items()
        },
    )
