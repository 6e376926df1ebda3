"""The releases that were tested together, which `--target tested` means.

`make tested` generates tested.json from constraints/cpu.txt. vLLM and GPUs are not part of it and stay unknown.
"""

import functools
import json
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).with_name("tested.json")


class Tested(NamedTuple):
    """The releases that were tested together."""

    python: str
    packages: dict[str, str]


@functools.cache
def read_tested_stack() -> Tested:
    """The tested stack shipped with the package."""
    content = json.loads(FILE.read_text(encoding="utf-8"))
    return Tested(content["python"], content["packages"])
