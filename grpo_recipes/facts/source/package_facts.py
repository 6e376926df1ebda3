"""The facts of one package release about the classes that grpo-run fills."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from grpo_recipes.facts.source.field import Field, from_json_value, to_json_value


class OwnerFacts(NamedTuple):
    """A class: the fields that its own package declares, and its bases in other packages."""

    bases: tuple[str, ...]
    fields: Mapping[str, Field]


class PackageFacts(NamedTuple):
    """The classes of one release, by name."""

    package: str
    version: str
    owners: Mapping[str, OwnerFacts]


# The modules that define each class, the newest first.
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
# The method whose parameters are the fields of a class that is not a dataclass.
METHODS: Mapping[str, str] = {"GRPOTrainer": "__init__", "VLLMClient": "generate"}
NOT_IN_ALL_RELEASES = frozenset({"VLLMClient"})


def package_to_json_value(facts: PackageFacts) -> dict[str, object]:
    """The facts as JSON, as the shipped data and the cache store them."""
    owners = {
        owner: {
            "bases": list(owner_facts.bases),
            "fields": {name: to_json_value(field) for name, field in owner_facts.fields.items()},
        }
        for owner, owner_facts in facts.owners.items()
    }
    return {"package": facts.package, "version": facts.version, "owners": owners}


def package_from_json_value(value: Mapping[str, object]) -> PackageFacts:
    """The facts that `package_to_json_value` wrote. Raises KeyError, TypeError or AttributeError for other content."""
    owners, package, version = value["owners"], value["package"], value["version"]
    if not isinstance(owners, dict) or not isinstance(package, str) or not isinstance(version, str):
        raise TypeError("facts have a package, a version and owners")
    return PackageFacts(
        package,
        version,
        {
            owner: OwnerFacts(
                tuple(entry["bases"]),
                {name: from_json_value(name, field) for name, field in entry["fields"].items()},
            )
            for owner, entry in owners.items()
        },
    )


NEW, OLD = "logits_to_keep", "num_logits_to_keep"


class LogitsKeyword(NamedTuple):
    """How a model class can be asked for the logits of only the last positions.

    name: the keyword that forward declares, None if it has none. translated: a decorator still translates
    num_logits_to_keep to logits_to_keep. swallows: forward takes any keyword, so a wrong name is silently ignored
    instead of raising TypeError.
    """

    name: str | None
    translated: bool
    swallows: bool

    def takes(self, word: str) -> bool:
        """Whether forward computes only the last logits when given this keyword."""
        return word == self.name or (self.translated and word == OLD)


def package_folder(package: str) -> Path | None:
    """The folder of an installed top-level package, None without one; imports nothing."""
    # importlib.util.find_spec would also find modules already loaded from elsewhere.
    for finder in sys.meta_path:
        try:
            spec = finder.find_spec(package, None)
        except (ImportError, ValueError, AttributeError):
            continue
        if spec is not None:
            is_package = spec.origin is not None and spec.origin.endswith("__init__.py")
            return Path(spec.origin).parent if spec.origin is not None and is_package else None
    return None
