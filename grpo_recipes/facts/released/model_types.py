"""The values of model_type for which releases of transformers have a configuration class."""

import functools
import re
from collections.abc import Iterable, Sequence

from grpo_recipes.facts.released.folded import nearest_release
from grpo_recipes.facts.released.shipped import is_newer, table
from grpo_recipes.facts.source.package_facts import package_folder

TABLE = "model_types"
FILES = ("configuration_auto.py", "auto_mappings.py")
"""The files of transformers/models/auto that CONFIG_MAPPING is made from; releases before 5.6 have only the first."""


def model_types_in(texts: Iterable[str], model_type: str = "") -> set[str]:
    """The types that these sources map to a class, or only whether they map this one."""
    name = re.escape(model_type) if model_type else r"[\w.-]+"
    entry = re.compile(rf'"({name})"\s*[,:]\s*"(?!AutoConfig")\w+Config"')
    return {mapped for text in texts if model_type in text for mapped in entry.findall(text)}


def releases_read() -> list[str]:
    """The releases whose types are known, oldest first."""
    releases: list[str] = table(TABLE)["releases"]
    return releases


def types_of_all_releases() -> set[str]:
    """Every type that any of them has."""
    return set(" ".join(table(TABLE)["added"].values()).split())


@functools.cache
def releases_with_type(model_type: str) -> Sequence[str]:
    """The releases that have a class for this type, oldest first."""
    data, has_it, releases = table(TABLE), False, []
    for release in releases_read():
        for change, holds in (("added", True), ("removed", False)):
            if model_type in data[change].get(release, "").split():
                has_it = holds
        if has_it:
            releases.append(release)
    return releases


def release_has_type(version: str, model_type: str) -> bool | None:
    """Whether this release has a class for this type; None if it was not read, and the newest one lacks the type."""
    release = nearest_release(releases_read(), version)
    if release is None:
        return None
    return release in releases_with_type(model_type) or (None if is_newer("transformers", version) else False)


@functools.cache
def installed_has_type(model_type: str) -> bool | None:
    """Whether the installed transformers has a class for this type; None if its list cannot be read.

    Cached, since one process sees one environment, and `plan` asks again for each variant.
    """
    folder = package_folder("transformers")
    files = [folder / "models" / "auto" / name for name in FILES] if folder is not None else []
    try:
        texts = [file.read_text(encoding="utf-8") for file in files if file.is_file()]
    except OSError:
        return None
    if not any("CONFIG_MAPPING_NAMES" in text for text in texts):
        return None
    return bool(model_types_in(texts, model_type))
