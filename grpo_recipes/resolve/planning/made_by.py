"""Which grpo-recipes made a plan: digests of what decides it and of what carries it out."""

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from grpo_recipes.contract.files.travels import TRAVELS
from grpo_recipes.user_files.data_card import WITH_CARDS

PACKAGE = Path(__file__).parents[2]
RULES = ("facts", "resolve", "rules", "schemas", "user_files")


@cache
def made_by() -> dict[str, str]:
    """The digests of this grpo-recipes: of its rules, facts and schemas, and of its worker and rewards; and in which
    way it makes digests of data, since another way is not another experiment.
    """
    rules, worker = sources_sha256(PACKAGE, RULES), sources_sha256(PACKAGE, TRAVELS)
    return {"rules": rules, "worker": worker, "digests": WITH_CARDS}


def sources_sha256(package: Path, parts: Iterable[str]) -> str:
    """sha256 over names and content of the .py and .json files of these parts of a package."""
    digest = hashlib.sha256()
    for part in parts:
        place = package / part
        for file in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if file.suffix in (".py", ".json"):
                content = hashlib.sha256(file.read_bytes()).hexdigest()
                digest.update(f"{content} {file.relative_to(package).as_posix()}\n".encode())
    return digest.hexdigest()
