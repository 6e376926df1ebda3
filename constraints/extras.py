"""What the extras of pyproject.toml ask for, and the Pythons that they are for."""

import tomllib
from collections.abc import Iterable
from pathlib import Path

PROJECT = tomllib.loads(Path(__file__).parents[1].joinpath("pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = ("train", "quantization", "deepspeed", "reasoning-gym", "vllm")
PYTHONS = ("3.11", "3.12", "3.13")


def requirements_of(extras: Iterable[str]) -> list[str]:
    """What an installation with these extras asks the index for."""
    return [*PROJECT["dependencies"], *(line for extra in extras for line in PROJECT["optional-dependencies"][extra])]
