"""The stack: the versions and the hardware that a recipe is resolved for."""

import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from packaging.version import InvalidVersion, Version

PACKAGES = (
    "torch",
    "transformers",
    "trl",
    "peft",
    "accelerate",
    "bitsandbytes",
    "deepspeed",
    "vllm",
    "datasets",
    "liger-kernel",
    "flash-attn",
    "math-verify",
    "requests",
)
# Packages that parts of a recipe may need: a tracking service, an optimizer, tools. No package of a training depends on
# them.
OPTIONAL_PACKAGES = (
    "apollo-torch",
    "clearml",
    "codecarbon",
    "comet-ml",
    "dagshub",
    "dvclive",
    "flytekit",
    "galore-torch",
    "grokadamw",
    "jmespath",
    "kernels",
    "lomo-optim",
    "mlflow",
    "mlflow-skinny",
    "neptune",
    "neptune-client",
    "num2words",
    "pillow",
    "reasoning-gym",
    "schedulefree",
    "swanlab",
    "tensorboard",
    "tensorboardx",
    "torch-optimi",
    "torchao",
    "torchdistx",
    "torchvision",
    "trackio",
    "wandb",
)
MOST_GPUS = 1024
_MOST_GIB = 100_000
_MOST_CAPABLE = 1000


class Gpu(NamedTuple):
    """One GPU. memory_gib: as the driver reports it; capability: (9, 0) is Hopper; None is unknown."""

    name: str
    memory_gib: float | None = None
    capability: tuple[int, int] | None = None


class Stack(NamedTuple):
    """Installed packages and available devices. None means unknown, never zero or absent.

    packages: name -> version, None if known to be absent; a missing name is unknown. gpus: () means no GPU.
    avx512_bf16: whether the processor has these instructions.
    declared: by `--target`. origin: "this machine", or the target as it was written.
    driver: the version of NVIDIA's driver. torch_cuda: the CUDA that torch was built for, as "13.0", "" for a build
    without. c_compiler, python_headers: whether Triton's prerequisites exist.
    """

    python: str | None
    packages: Mapping[str, str | None]
    gpus: tuple[Gpu, ...] | None
    avx512_bf16: bool | None
    declared: bool
    origin: str
    driver: str | None = None
    torch_cuda: str | None = None
    c_compiler: bool | None = None
    python_headers: bool | None = None

    def version(self, package: str) -> str | None:
        """The version of a package, None if it is absent or unknown."""
        return self.packages.get(package)

    def is_absent(self, package: str) -> bool:
        """Whether the package is known not to be installed."""
        return package in self.packages and self.packages[package] is None

    def is_known(self, package: str) -> bool:
        """Whether the version of a package, or its absence, is known."""
        return package in self.packages


def to_json_value(stack: Stack) -> dict[str, object]:
    """The stack as JSON: what `doctor --json` prints under "stack", and what plan.json stores."""
    gpus = None if stack.gpus is None else [_gpu_to_json_value(gpu) for gpu in stack.gpus]
    return {
        "python": stack.python,
        "packages": dict(stack.packages),
        "gpus": gpus,
        "avx512_bf16": stack.avx512_bf16,
        "driver": stack.driver,
        "torch_cuda": stack.torch_cuda,
        "c_compiler": stack.c_compiler,
        "python_headers": stack.python_headers,
        "declared": stack.declared,
        "origin": stack.origin,
    }


def from_json_value(value: object) -> Stack:
    """The stack that `to_json_value` wrote; missing keys are unknown.

    Raises ValueError with the key and the reason for an invalid value.
    """
    from grpo_recipes.contract.read_plan import section_of  # a probed stack does without it

    if not isinstance(value, dict):
        raise ValueError("a stack is an object with python, packages and gpus")
    unknown = sorted(set(value) - set(Stack._fields))
    if unknown:
        raise ValueError(f"{unknown[0]} is not a key of a stack")
    known: dict[str, object] = {
        "python": None,
        "packages": {},
        "gpus": None,
        "avx512_bf16": None,
        "declared": True,
        "origin": "json",
    }
    stack = section_of(Stack, {**known, **value}, "")
    if len(stack.gpus or ()) > MOST_GPUS:
        raise ValueError(f"gpus is a list of at most {MOST_GPUS:,}, or null when they are unknown")
    for gpu in stack.gpus or ():
        if not 0 <= (gpu.memory_gib or 0) <= _MOST_GIB:
            raise ValueError(f"memory_gib is a number up to {_MOST_GIB:,}, or null")
        if gpu.capability is not None and (len(gpu.capability) != 2 or max(gpu.capability) > _MOST_CAPABLE):
            raise ValueError("capability is two integers such as [9, 0], or null")
    return stack


def _gpu_to_json_value(gpu: Gpu) -> dict[str, object]:
    capability = None if gpu.capability is None else list(gpu.capability)
    return {"name": gpu.name, "memory_gib": gpu.memory_gib, "capability": capability}


def normalize(package: str) -> str:
    """The name as package indexes compare it: lower case, one "-" for each run of "-", "_" and "."."""
    return re.sub(r"[-_.]+", "-", package).lower()


def installed_packages(search_path: Iterable[str] | None = None) -> dict[str, str | None]:
    """The version of each of PACKAGES and OPTIONAL_PACKAGES on this search path, None if it is not installed.

    search_path: folders as in sys.path, which is the default; the first folder that has a package wins.
    A folder that an interrupted update left without its METADATA does not count.
    """
    packages: dict[str, str | None] = dict.fromkeys((*PACKAGES, *OPTIONAL_PACKAGES))
    for folder in sys.path if search_path is None else search_path:
        here: dict[str, list[str]] = {}
        for name, path in _metadata_folders(folder or "."):
            if name in packages and packages[name] is None and (version := _version(path)) is not None:
                here.setdefault(name, []).append(version)
        for name, versions in here.items():
            packages[name] = max(versions, key=_order)
    return packages


def _metadata_folders(folder: str) -> list[tuple[str, Path]]:
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    return [
        (normalize(name.rpartition(".")[0].partition("-")[0]), Path(folder, name))
        for name in names
        if name.endswith((".dist-info", ".egg-info"))
    ]


def _version(path: Path) -> str | None:
    """The `Version:` of a .dist-info or .egg-info folder, None if it has no readable metadata."""
    for file in (path / "METADATA", path / "PKG-INFO"):
        try:
            with file.open(encoding="utf-8", errors="replace") as lines:
                for line in lines:
                    if line.startswith("Version:"):
                        return line.removeprefix("Version:").strip()
                    if not line.strip():
                        break
        except OSError:
            continue
    return None


def _order(version: str) -> tuple[bool, Version]:
    try:
        return (True, Version(version))
    except InvalidVersion:
        return (False, Version("0"))
