"""The requirements that a stack's packages declare on each other, and where the stack violates them."""

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from packaging.version import InvalidVersion

from grpo_recipes.facts.released.folded import nearest_release, value_at
from grpo_recipes.facts.released.shipped import final_releases, releases_with_facts, table
from grpo_recipes.facts.released.windows import is_within, version_of
from grpo_recipes.stack.stack import Stack

TABLE = "requirements"
# An extra in the metadata -> the package whose presence means that the extra is used.
EXTRAS: Mapping[str, str] = {
    "accelerate": "accelerate",
    "deepspeed": "deepspeed",
    "liger": "liger-kernel",
    "math-verify": "math-verify",
    "peft": "peft",
    "quantization": "bitsandbytes",
    "torch": "torch",
    "vllm": "vllm",
}


class Requirement(NamedTuple):
    """A requirement of a package. name: a package of the stack or "python".

    extra: None if pip always enforces it; else pip enforces it only if the extra was requested.
    """

    name: str
    specifier: str
    extra: str | None = None

    def __str__(self) -> str:
        return f"{self.name}{self.specifier}"

    def accepts(self, version: str) -> bool:
        """Whether a version is within the window, by its public part; pre-releases are allowed."""
        return is_within(version, self.specifier)


class Conflict(NamedTuple):
    """A package of a stack that violates the requirement of a different one."""

    package: str
    version: str
    requirement: Requirement
    found: str


@functools.cache
def requirements(package: str, version: str) -> tuple[Requirement, ...] | None:
    """The requirements of a release on packages of the stack, None if its metadata was not read."""
    data = table(TABLE).get(package)
    release = None if data is None else nearest_release(data["releases"], version)
    if release is None:
        return None
    assert data is not None
    places = {name: index for index, name in enumerate(data["releases"])}
    return tuple(
        Requirement(name, specifier, extra or None)
        for key, spans in data.items()
        if key != "releases" and (specifier := value_at(spans, release, places)) is not None
        for name, _, extra in [key.partition(" for ")]
    )


def find_conflicts(stack: Stack) -> list[Conflict]:
    """Every declared window that the stack violates, if both versions are known."""
    return [
        Conflict(package, version, requirement, installed)
        for package in table(TABLE)
        if (version := stack.version(package)) is not None
        for requirement, installed in _with_known_versions(stack, requirements(package, version) or ())
        if not requirement.accepts(installed)
    ]


def check_requirements(package: str, stack: Stack) -> list[tuple[str, str | None, bool]]:
    """For each window that a package of the stack declares: its name, its extra, and whether the stack meets it."""
    declared = requirements(package, stack.version(package) or "") or ()
    return [
        (window.name, window.extra, window.accepts(version))
        for window, version in _with_known_versions(stack, declared)
    ]


def nearest_first(package: str, version: str | None) -> list[str]:
    """The other releases of a package by distance from `version`; empty if it is unknown.

    Only releases whose windows are known, for a package that declares any; no release candidates.
    """
    if version is None:
        return []
    known = table(TABLE).get(package)
    read = final_releases(package) if known is None else [str(release) for release in known["releases"]]
    releases = [release for release in read if not version_of(release).is_prerelease]
    rank = sum(version_of(release) < version_of(version) for release in releases)
    return [release for release in sorted(releases, key=lambda r: abs(releases.index(r) - rank)) if release != version]


def nearest_outside(package: str, version: str, window: str) -> list[str]:
    """The nearest releases above and below `version` that are outside a window, nearer first.

    Below, only those that grpo-run supports: no trl without a GRPOTrainer.
    """
    oldest = next(iter(releases_with_facts(package)), "0")
    releases = [release for release in final_releases(package) if version_of(release) >= version_of(oldest)]
    outside = [release for release in releases if not is_within(release, window)]
    above = [release for release in outside if version_of(release) > version_of(version)]
    below = [release for release in outside if version_of(release) < version_of(version)]
    rank = sum(version_of(release) < version_of(version) for release in releases)
    return sorted([*above[:1], *below[-1:]], key=lambda release: abs(releases.index(release) - rank))


def _with_known_versions(stack: Stack, declared: Sequence[Requirement]) -> Iterator[tuple[Requirement, str]]:
    """The requirements on packages with a known, valid version."""
    for requirement in declared:
        installed = stack.python if requirement.name == "python" else stack.version(requirement.name)
        if installed is None or (requirement.extra and stack.version(EXTRAS[requirement.extra]) is None):
            continue
        try:
            version_of(installed)
        except InvalidVersion:
            continue
        yield requirement, installed


TORCH_CUDA_TABLE = "torch_cuda"
_LOCAL = r"cu(\d+)(\d)"


def cuda_of(stack: Stack) -> str | None:
    """The CUDA of the stack's torch, as "13.0"; "" for a build without; None if unknown.

    For a torch that is not installed here, it follows from the version suffix, as in 2.13.0+cu130 and 2.13.0+cpu, or
    without one from PyPI's build.
    """
    if stack.torch_cuda is not None or not stack.declared:
        return stack.torch_cuda
    release, _, local = (stack.version("torch") or "").partition("+")
    if local:
        built_for = re.fullmatch(_LOCAL, local)
        return f"{built_for[1]}.{built_for[2]}" if built_for else "" if local == "cpu" else None
    return next(
        (row["cuda"] for row in table(TORCH_CUDA_TABLE)["built_for"] if release and is_within(release, row["torch"])),
        None,
    )


def driver_for(cuda: str) -> int | None:
    """The oldest driver (major version) that runs programs built for a CUDA; None if unknown."""
    driver = table(TORCH_CUDA_TABLE)["driver_of_cuda"].get(cuda.partition(".")[0])
    return None if driver is None else int(driver)


def newest_cuda_of(driver: str) -> str | None:
    """The newest CUDA (major version) that a driver runs; None if it is older than all known ones."""
    number = int(driver.partition(".")[0])
    fitting = [cuda for cuda, oldest in table(TORCH_CUDA_TABLE)["driver_of_cuda"].items() if oldest <= number]
    return max(fitting, key=int, default=None)


def newest_torch_for(driver: str) -> str | None:
    """The newest torch on PyPI that a driver runs, as a window such as ">=2.8.0,<2.11.0"; None without one."""
    cuda = newest_cuda_of(driver)
    rows = [
        row for row in table(TORCH_CUDA_TABLE)["built_for"] if cuda and int(row["cuda"].partition(".")[0]) <= int(cuda)
    ]
    return str(rows[-1]["torch"]) if rows else None


PARAMETERS = {"tools": "tools", "environment": "environment_factory", "rollout": "rollout_func"}
"""Features of a recipe -> the parameter of GRPOTrainer for it."""


def transformers_for(asked: str, trl: str) -> str | None:
    """The window of transformers that GRPOTrainer needs for a feature, else ImportError; None if any works."""
    rows = table("tools")["needs"]
    return next((row["transformers"] for row in rows if row["asked"] == asked and is_within(trl, row["trl"])), None)


def needs_jmespath(trl: str, transformers: str | None) -> bool:
    """Whether tool calls are parsed with jmespath, whose absence makes GRPOTrainer raise ImportError."""
    return any(_holds(row, trl, transformers) for row in table("tools")["jmespath"])


def reads_types_in_docstrings(transformers: str | None) -> bool:
    """Whether transformers reads `name (type): ...` in a docstring as text about an argument; true if unknown."""
    return transformers is None or is_within(transformers, table("tools")["types_in_docstrings"])


def read_responses(trl: str, transformers: str | None) -> tuple[str, ...]:
    """Entries of tokenizer_config.json with which a tokenizer can define how tool calls are parsed."""
    return tuple(row["key"] for row in table("tools")["responses"] if _holds(row, trl, transformers))


def templates_with_parser(trl: str, transformers: str | None) -> Mapping[str, str]:
    """The chat templates whose tool calls TRL can parse: sha256 of the text -> name."""
    rows = table("tools")["templates"]
    return {row["sha256"]: row["name"] for row in rows if _holds(row, trl, transformers)}


def _holds(row: Mapping[str, Any], trl: str, transformers: str | None) -> bool:
    window = row.get("transformers")
    return is_within(trl, row["trl"]) and (
        window is None or (transformers is not None and is_within(transformers, window))
    )
