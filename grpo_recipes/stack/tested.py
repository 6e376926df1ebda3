"""The stack that every version of the package is tested with, by its word in a target.

tested.json is made of constraints/cpu.txt by `make tested`. vLLM and GPUs are not part of it and stay unknown.
"""

import json
from dataclasses import dataclass
from pathlib import Path

WORD = "tested"
FILE = Path(__file__).with_name("tested.json")


@dataclass(frozen=True, slots=True)
class Tested:
    """The releases that were run together."""

    python: str
    packages: dict[str, str]


def tested() -> Tested:
    """The tested stack as it is shipped."""
    content = json.loads(FILE.read_text(encoding="utf-8"))
    return Tested(content["python"], content["packages"])
