"""Facts of an installed package that is, file by file, a release whose facts are shipped: nothing need be parsed.

data/digests.json has, for each release, the files that its facts were read from and one digest of them. Whatever
differs from a release is read from its source.
"""

from collections.abc import Iterable
from pathlib import Path

from grpo_recipes.contract.files.digest import file_sha256, files_sha256
from grpo_recipes.facts.released.shipped import facts_of_release, table, value_at
from grpo_recipes.facts.source.cache import Read

TABLE = "digests"


def as_released(package: str, version: str, folder: Path) -> Read | None:
    """The shipped facts of this version and the files they stand for; None where the files are not those."""
    facts = facts_of_release(package, version)
    known = table(TABLE).get(package)
    if facts is None or known is None or facts.version not in known["releases"]:
        return None
    places = {release: place for place, release in enumerate(known["releases"])}
    names = value_at(known["files"], facts.version, places)
    try:
        if source_sha256(folder, names) != value_at(known["sha256"], facts.version, places):
            return None
    except OSError:
        return None
    return Read(facts._replace(version=version), [folder / name for name in names])


def source_sha256(folder: Path, names: Iterable[str]) -> str:
    """One digest of the files of a package that its facts are read from. Raises OSError."""
    return files_sha256((name, file_sha256(folder / name)) for name in sorted(names))
