"""Digests of the grpo-recipes code that makes and executes a plan."""

import hashlib
import os
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

from grpo_recipes.contract.files.regular_file import TRAVELS, files_sha256

PACKAGE = Path(__file__).parents[2]
RULES = ("facts", "resolve", "rules", "schemas", "user_files")


@cache
def digests_of_sources() -> dict[str, str]:
    """The digests of this grpo-recipes' rules, facts and schemas, and of its worker and rewards."""
    rules, worker = sources_sha256(PACKAGE, RULES), sources_sha256(PACKAGE, TRAVELS)
    return {"rules": rules, "worker": worker}


def sources_sha256(package: Path, parts: Iterable[str]) -> str:
    """sha256 over names and content of the .py and .json files of these parts of a package."""
    digests = []
    for part in parts:
        for name in sorted(_files(package, part), key=lambda name: name.split("/")):
            if name.endswith((".py", ".json")):
                with open(os.path.join(package, name), "rb") as file:
                    digests.append((name, hashlib.sha256(file.read()).hexdigest()))
    return files_sha256(digests)


def _files(package: Path, part: str) -> Iterator[str]:
    """The names of the files of a folder, or of a single file; pathlib would take four times as long."""
    root = os.path.join(package, part)
    if not os.path.isdir(root):
        yield part
    for folder, _, names in os.walk(root):
        below = os.path.relpath(folder, package).replace(os.sep, "/")
        yield from (f"{below}/{name}" for name in names)
