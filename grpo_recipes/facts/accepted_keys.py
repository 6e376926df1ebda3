"""The keys that other programs accept: sbatch, DeepSpeed, the generators, and reward functions of TRL."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

from grpo_recipes.facts.facts import Facts
from grpo_recipes.facts.released.shipped import releases_with_facts, shipped_facts, table
from grpo_recipes.facts.released.windows import is_within

# The sbatch options that a recipe may use, and their values; everything else is up to the user who submits the job.
#
# The table is `data/sbatch_options.json`. shapes: patterns for whole values, by name. allowed: long options with the
# shapes of their values ("flag": none) and their effect. homes: options that have a key in the recipe. owned: options
# that grpo-run writes itself or that break its job. users: options that run, read, write or send something, with a
# description. Source: the manual of sbatch 24.11, and `sbatch --help` of 22.05, in tests/slurm.


FLAG = "flag"


def is_allowed(name: str) -> bool:
    """Whether a recipe may use the option."""
    return name in table("sbatch_options")["allowed"]


def has_shape(name: str, value: object) -> bool:
    """Whether a value of an allowed option has one of its shapes. true: the option without a value."""
    facts = table("sbatch_options")
    shapes = facts["allowed"][name]["shape"]
    if value is True:
        return FLAG in shapes
    text = str(value)
    is_plain = text.isprintable() and text == text.strip() and not (name == "gres" and "gpu" in text.lower())
    return is_plain and any(shape != FLAG and re.fullmatch(facts["shapes"][shape], text) for shape in shapes)


def home(name: str) -> str | None:
    """The recipe's key for an option, None without one."""
    key: str | None = table("sbatch_options")["homes"].get(name)
    return key


def why_not(name: str) -> str | None:
    """Why no recipe may use a known option, None if there is no such reason."""
    facts = table("sbatch_options")
    reason: str | None = facts["owned"].get(name) or facts["users"].get(name)
    return reason


def is_the_users(name: str) -> bool:
    """Whether a user may pass the option to sbatch: it does not break the job's script."""
    return name not in table("sbatch_options")["owned"]


def longer(name: str) -> list[str]:
    """The known options that sbatch may abbreviate to this prefix."""
    facts = table("sbatch_options")
    names = [option for part in ("allowed", "homes", "owned", "users") for option in facts[part]]
    return [option for option in names if option.startswith(name) and option != name]


# The images and mounts that container runtimes accept.
#
# Source: args.c and pyxis_slurmstepd.c of pyxis 0.24.0, docker.sh of enroot 4.1.2, Apptainer's manual of 1.4.


_PART = r"[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*"
_TAG = r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(@sha256:[0-9a-f]{64})?"
_IMAGE = rf"([A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?/)?{_PART}(/{_PART})*{_TAG}"
_OF_A_RUNTIME = {
    "pyxis": (
        rf"/.*\.(sqsh|squashfs)|(?!.*\.(sqsh|squashfs|sif)$)(dockerd?://)?([^@/#\s]+@)?([A-Za-z0-9.-]+(:[0-9]+)?#)?"
        rf"(?![^/]*[.:][^/]*/){_IMAGE}",
        "the absolute path of a .sqsh, or an image as enroot writes it, such as nvcr.io#team/grpo-run:1",
    ),
    "apptainer": (
        r"/.*|(docker|library|oras|shub|https)://\S+",
        "the absolute path of a .sif, a .sqsh or a folder, or an address such as docker://nvcr.io/team/grpo-run:1",
    ),
}
_PLACE = r"/[^:,]*"


def container_faults(container: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each key of a recipe's slurm.container whose value its runtime would refuse, and the values that it accepts."""
    form, words = _OF_A_RUNTIME[container["runtime"]]
    if not container["image"].isprintable() or not re.fullmatch(form, container["image"]):
        yield "image", words
    for index, mount in enumerate(container["mounts"]):
        if not mount.isprintable() or not re.fullmatch(rf"{_PLACE}(:{_PLACE}(:(ro|rw))?)?", mount):
            yield f"mounts.{index}", "/source, /source:/target or /source:/target:ro, absolute and without a comma"


# The keys of a DeepSpeed file that DeepSpeed reads, those that grpo-run writes, and those that were removed.
#
# The table is `data/deepspeed_keys.json`, of one release. owned: key in dots -> the recipe key for it.


class DeepSpeedKeys(NamedTuple):
    """The keys of one release. sections: those that refuse unknown fields, by path in dots, with their fields.

    values: by the same paths, field -> [bool, int or float; minimum; maximum; whether null is allowed].
    of_stages: field of the ZeRO section -> the strategies that read it, unless all do.
    """

    release: str
    read: frozenset[str]
    removed: frozenset[str]
    owned: Mapping[str, str]
    sections: Mapping[str, frozenset[str]]
    values: Mapping[str, Mapping[str, list[Any]]]
    of_stages: Mapping[str, tuple[str, ...]]


@cache
def deepspeed_keys() -> DeepSpeedKeys:
    """The table."""
    known = table("deepspeed_keys")
    zero = "zero_optimization"
    paths = {zero: zero, f"{zero}.offload_param": "offload_param", f"{zero}.offload_optimizer": "offload_optimizer"}
    paths |= {"bf16": "bf16", "fp16": "fp16"}
    alone = dict.fromkeys(known["read_by_zero3_alone"], ("zero3",))
    alone |= {f"stage3_{name}": ("zero3",) for name in alone if f"stage3_{name}" in known[zero]}
    return DeepSpeedKeys(
        release=known["deepspeed"],
        read=frozenset(known["read"]),
        removed=frozenset(known["removed"]),
        owned=known["owned"],
        sections={path: frozenset(known[name]) for path, name in paths.items()},
        values={path: known["values"][name] for path, name in paths.items()},
        of_stages=alone | dict.fromkeys(known["read_by_zero1_and_zero2_alone"], ("zero1", "zero2")),
    )


ALWAYS_PASSED = ("prompts", "completions")


def columns_no_reward_gets() -> tuple[str, ...]:
    """Columns that no reward receives, whatever the data has."""
    return tuple(table("reward_keywords")["kept_back"])


def not_passed(version: str | None) -> dict[str, str]:
    """Keywords that newer releases pass and this one does not, with the releases that do; empty if unknown."""
    if version is None:
        return {}
    rows = table("reward_keywords")["passed"]
    return {row["keyword"]: row["trl"] for row in rows if not is_within(version, row["trl"])}


def rewards_of_trl(version: str | None) -> tuple[str, ...]:
    """The names in trl.rewards of a release, empty if unknown."""
    rows = table("reward_keywords")["shipped"] if version is not None else ()
    return tuple(row["name"] for row in rows if is_within(str(version), row["trl"]))


# The generator options that the format has no key for: vLLM's SamplingParams, transformers' GenerationConfig.
#
# The table for transformers is `data/generation_keys.json`, of one release; the fields of vLLM's class are facts of
# each release.


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
