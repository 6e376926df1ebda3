"""Writes grpo_recipes/stack/tested.json, the stack that `--target tested` means, from constraints/cpu.txt."""

import json
import re
from pathlib import Path

from packaging.utils import canonicalize_name

from grpo_recipes.stack.stack import OPTIONAL_PACKAGES, PACKAGES
from grpo_recipes.stack.tested import FILE

LOCK = Path(__file__).with_name("cpu.txt")


def tested_text() -> str:
    """What of the lock a stack can name: its Python, and its packages in their own order."""
    head, *lines = LOCK.read_text(encoding="utf-8").splitlines()
    python = re.search(r"Python (\d+\.\d+)", head)
    pins = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    locked = {canonicalize_name(name): version for name, version in pins.items()}
    packages = {name: locked[name] for name in (*PACKAGES, *OPTIONAL_PACKAGES) if name in locked}
    return json.dumps({"python": python and python[1], "packages": packages}, indent=1) + "\n"


if __name__ == "__main__":
    FILE.write_text(tested_text(), encoding="utf-8")
