"""The generator options that the format has no key for: vLLM's SamplingParams, transformers' GenerationConfig.

The table for transformers is `data/generation_keys.json`, of one release; the fields of vLLM's class are facts of
each release.
"""

from collections.abc import Mapping

from grpo_recipes.facts.facts import Facts
from grpo_recipes.facts.released.shipped import releases_with_facts, shipped_facts, table
from grpo_recipes.facts.released.windows import is_within

VLLM, TRANSFORMERS = "vLLM", "transformers"

LISTS = ("generation.stop", "generation.stop_token_ids")


def homes() -> Mapping[str, str]:
    """The recipe's key for a key of either generator."""
    keys: Mapping[str, str] = table("generation_keys")["homes"]
    return keys


def keys_to_refuse() -> Mapping[str, str]:
    """Known keys that no run can use, with the reason."""
    reasons: Mapping[str, str] = table("generation_keys")["refused"]
    return reasons


# Available in every run.
ALWAYS = {"do_sample": "true", "skip_special_tokens": "false where a stop needs it"}


def keys_of_newest(backend: str, facts: Facts) -> frozenset[str]:
    """The keys of a backend, of its newest release if the target's is unknown or missing."""
    known = keys_of(backend, facts)
    newest = shipped_facts("vllm", releases_with_facts("vllm")[-1]) if known is None else None
    return known or (frozenset(newest.owners["SamplingParams"].fields) if newest is not None else frozenset())


def keys_of(backend: str, facts: Facts) -> frozenset[str] | None:
    """The keys that a backend of the target reads, None if its release is unknown."""
    if backend == VLLM:
        fields = facts.fields("SamplingParams")
        return None if fields is None else frozenset(fields)
    data, version = table("generation_keys"), facts.versions.get("transformers")
    later = {key for key, window in data["windows"].items() if version is not None and not is_within(version, window)}
    return frozenset(data["keys"]) - later
