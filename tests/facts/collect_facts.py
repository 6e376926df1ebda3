"""Renews the shipped facts from the package index: `make facts`, or `python tests/facts/collect_facts.py [STEP...]`.

Steps: releases; trl, transformers, peft, vllm (fields, and for transformers the logits keywords); model types;
requirements; digests (of the files that fields were read from).
Wheels are read block by block; their sources lie in a temporary folder while they are read. `make release-of` calls
`collect_newer`, which reads only the releases of a package that the tables lack.
"""

import datetime
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from email.parser import HeaderParser
from itertools import chain
from pathlib import Path
from typing import Any

import package_index
from folding import fold, fold_facts, folded_text, table_text
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from grpo_recipes.contract.files.regular_file import file_sha256
from grpo_recipes.facts.facts import DIGESTS, source_sha256
from grpo_recipes.facts.released.folded import unfold, value_at
from grpo_recipes.facts.released.logits import TABLE as LOGITS
from grpo_recipes.facts.released.logits import model_classes
from grpo_recipes.facts.released.model_types import FILES as AUTO_FILES
from grpo_recipes.facts.released.model_types import TABLE as MODEL_TYPES
from grpo_recipes.facts.released.model_types import model_types_in
from grpo_recipes.facts.released.requirements import EXTRAS
from grpo_recipes.facts.released.requirements import TABLE as REQUIREMENTS
from grpo_recipes.facts.released.shipped import DATA, facts_of_release, releases_with_facts, table
from grpo_recipes.facts.source.package_facts import MODULES, LogitsKeyword
from grpo_recipes.facts.source.package_source import PackageSource
from grpo_recipes.facts.source.read import read_logits_keyword
from grpo_recipes.facts.source.read_package import read_package
from grpo_recipes.stack.stack import PACKAGES

# Where grpo-run's stacks run; requirements for other systems do not matter.
_ENVIRONMENT = {
    "os_name": "posix",
    "sys_platform": "linux",
    "platform_system": "Linux",
    "platform_machine": "x86_64",
    "platform_python_implementation": "CPython",
    "implementation_name": "cpython",
    "python_version": "3.12",
    "python_full_version": "3.12.0",
}


def declared_windows(metadata: str) -> dict[str, str]:
    """ "transformers" or "vllm for vllm" (an extra) -> specifier; packages of a stack and python alone.

    Windows that leave everything open are left out.
    """
    headers = HeaderParser().parsestr(metadata)
    windows: dict[str, str] = {}
    for extra in ("", *EXTRAS):
        for line in headers.get_all("Requires-Dist") or ():
            requirement = Requirement(line)
            name = canonicalize_name(requirement.name)
            if name in PACKAGES and str(requirement.specifier) and _applies(requirement, extra):
                key = f"{name} for {extra}" if extra else name
                parts = {*filter(None, windows.get(key, "").split(",")), *str(requirement.specifier).split(",")}
                windows[key] = ",".join(sorted(parts, reverse=True))
    python = headers.get("Requires-Python")
    return windows | ({"python": ",".join(sorted(python.replace(" ", "").split(","), reverse=True))} if python else {})


def _applies(requirement: Requirement, extra: str) -> bool:
    """Whether the requirement stands under this extra, or under none for ""."""
    if requirement.marker is None or "extra" not in str(requirement.marker):
        return not extra and (requirement.marker is None or requirement.marker.evaluate(_ENVIRONMENT))
    spellings = {extra, extra.replace("-", "_")} if extra else set[str]()
    return any(requirement.marker.evaluate({**_ENVIRONMENT, "extra": spelling}) for spelling in spellings)


def windows_by_key(releases: Mapping[str, Mapping[str, str]]) -> dict[str, list[str | None]]:
    """Key -> its window in each release, None where there is none; "python" first, extras last."""
    keys = sorted({key for windows in releases.values() for key in windows}, key=lambda k: (k != "python", " " in k, k))
    return {key: [windows.get(key) for windows in releases.values()] for key in keys}


# The oldest release that is read: GRPOTrainer came with trl 0.14.0, which the others are of the time of.
OLDEST: Mapping[str, str] = {
    "trl": "0.14.0",
    "transformers": "4.46.0",
    "peft": "0.8.0",
    "accelerate": "0.34.0",
    "datasets": "2.21.0",
    "bitsandbytes": "0.43.0",
    "liger-kernel": "0.4.0",
    "vllm": "0.6.0",
}
_AT_ONCE = 4
Wheels = Iterator[tuple[str, zipfile.ZipFile]]


def main(steps: list[str]) -> int:
    """Writes the data files of the steps, of all without any, one line to stdout for each."""
    known: dict[str, Callable[[], None]] = {
        "releases": collect_releases,
        **{package: lambda package=package: collect_package(package) for package in MODULES},  # type: ignore[misc]
        "model types": collect_model_types,
        "requirements": collect_requirements,
        "digests": collect_digests,
    }
    if unknown := [step for step in steps if step not in known]:
        print(f"{unknown[0]} is no step; there are {', '.join(known)}", file=sys.stderr)
        return 2
    for step in steps or known:
        known[step]()
    return 0


def collect_newer(package: str, wheel: tuple[str, Path] | None = None) -> None:
    """Writes what the tables lack about the newer releases of one package; what they have is not read again.

    wheel: the version and the file of a release that is not on the package index.
    """

    def newer(known: Sequence[str]) -> Wheels:
        own = [] if wheel is None else [(wheel[0], zipfile.ZipFile(wheel[1]))]
        return chain(_wheels(package, known), own)

    collect_releases({} if wheel is None else {package: [wheel[0]]})
    if package in MODULES:
        known = releases_with_facts(package)
        for name, text in package_texts(package, known, newer(known)).items():
            _write(name, text)
        _write(DIGESTS, table_text({**table(DIGESTS), package: digests_of(package, known, newer(known))}))
    if package == "transformers":
        known = table(MODEL_TYPES)["releases"]
        _write(MODEL_TYPES, model_types_text(known, newer(known)))
    if package in OLDEST:
        known = table(REQUIREMENTS)[package]["releases"]
        _write(
            REQUIREMENTS, table_text({**table(REQUIREMENTS), package: requirements_of(package, known, newer(known))})
        )


def collect_releases(more: Mapping[str, list[str]] | None = None) -> None:
    """Writes releases.json: every version of every package of a stack, and the day. more: versions beside the index."""
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    packages = {
        package: package_index.versions_in(package_index.page(package)) + (more or {}).get(package, [])
        for package in PACKAGES
    }
    _write("releases", table_text({"date": day, "source": package_index.INDEX, "packages": packages}))


def collect_package(package: str) -> None:
    """Writes <package>.json, for transformers logits_keyword.json too."""
    for name, text in package_texts(package, (), _wheels(package)).items():
        _write(name, text)


def package_texts(package: str, known: Sequence[str], wheels: Wheels) -> dict[str, str]:
    """The texts of a package's tables, by name. Raises LookupError for an unreadable release.

    known: releases that are taken from the tables. wheels: those that are read.
    """
    facts = [unfold(table(package), release) for release in known]
    keywords = {release: _known_keywords(release) for release in known if package == "transformers"}
    for version, wheel in wheels:
        with wheel, tempfile.TemporaryDirectory() as folder:
            source = unpack(wheel, package, Path(folder))
            read = read_package(source, version)
            if read is None:
                raise LookupError(f"{package} {version} has no readable {', '.join(MODULES[package])}")
            facts.append(read)
            if package == "transformers":
                keywords[version] = _logits_keywords(source)
    orders = {name: list(owner["fields"]) for name, owner in table(package)["owners"].items()} if known else {}
    texts = {package: folded_text(fold_facts(sorted(facts, key=lambda read: Version(read.version)), orders))}
    return texts | ({LOGITS: _logits_text(_sorted(keywords))} if keywords else {})


def collect_model_types() -> None:
    """Writes model_types.json: which types each release added and removed."""
    _write(MODEL_TYPES, model_types_text((), _wheels("transformers")))


def model_types_text(known: Sequence[str], wheels: Wheels) -> str:
    """The text of model_types.json; known, wheels: as in package_texts. Raises LookupError for one without any."""
    types: dict[str, set[str]] = {}
    for release in known:
        added, removed = (set(table(MODEL_TYPES)[change].get(release, "").split()) for change in ("added", "removed"))
        types[release] = ({*next(reversed(types.values()), set())} | added) - removed
    for version, wheel in wheels:
        with wheel:
            files = {f"transformers/models/auto/{name}" for name in AUTO_FILES} & set(wheel.namelist())
            types[version] = model_types_in(wheel.read(name).decode("utf-8") for name in sorted(files))
        if not types[version]:
            raise LookupError(f"transformers {version} has no readable CONFIG_MAPPING")
    return table_text(changes_of(_sorted(types)))


def changes_of(types: Mapping[str, set[str]]) -> dict[str, Any]:
    """The table of the types of each release, oldest first: those of the oldest count as added there."""
    changes: dict[str, dict[str, str]] = {"added": {}, "removed": {}}
    before: set[str] = set()
    for version, names in types.items():
        for change, changed in (("added", names - before), ("removed", before - names)):
            if changed:
                changes[change][version] = " ".join(sorted(changed))
        before = names
    return {"releases": list(types), **changes}


def collect_requirements() -> None:
    """Writes requirements.json: the windows that the metadata of each release declares."""
    _write(REQUIREMENTS, table_text({package: requirements_of(package, (), _wheels(package)) for package in OLDEST}))


def requirements_of(package: str, known: Sequence[str], wheels: Wheels) -> dict[str, object]:
    """The rows of one package in requirements.json. known, wheels: as in package_texts."""
    rows = table(REQUIREMENTS).get(package, {})
    releases = {
        release: {key: window for key in rows if key != "releases" and (window := _at(rows, key, release)) is not None}
        for release in known
    }
    for version, wheel in wheels:
        with wheel:
            releases[version] = declared_windows(metadata_of(wheel))
    releases = _sorted(releases)
    folded = {key: fold(values, list(releases)) for key, values in windows_by_key(releases).items()}
    return {"releases": list(releases), **folded}


def collect_digests() -> None:
    """Writes digests.json: of each release whose facts are shipped the files that they are read from, and one digest.

    Raises LookupError for a release whose shipped facts are not what its files say.
    """
    _write(DIGESTS, table_text({package: digests_of(package, (), _wheels(package)) for package in MODULES}))


def digests_of(package: str, known: Sequence[str], wheels: Wheels) -> dict[str, object]:
    """The rows of one package in digests.json. known, wheels: as in package_texts."""
    rows = table(DIGESTS).get(package, {})
    files = {release: (_at(rows, "files", release), _at(rows, "sha256", release)) for release in known}
    for version, wheel in wheels:
        shipped = facts_of_release(package, version)
        if shipped is None or shipped.version != version:
            continue
        with wheel, tempfile.TemporaryDirectory() as folder:
            source = unpack(wheel, package, Path(folder))
            if read_package(source, version) != shipped:
                raise LookupError(f"{package} {version} says something else than {package}.json")
            names = sorted(file.relative_to(source.folder).as_posix() for file in source.files.values())
            files[version] = (names, source_sha256(source.folder, names))
    files = _sorted(files)
    names_of, digest_of = ([pair[part] for pair in files.values()] for part in (0, 1))
    releases = list(files)
    return {"releases": releases, "files": fold(names_of, releases), "sha256": fold(digest_of, releases)}


def _at(rows: Mapping[str, Any], key: str, release: str) -> Any:
    """What a row of a folded table has for a release, None for nothing."""
    return value_at(rows[key], release, {name: index for index, name in enumerate(rows["releases"])})


def _sorted(by_release: Mapping[str, Any]) -> dict[str, Any]:
    return dict(sorted(by_release.items(), key=lambda item: Version(item[0])))


def _wheels(package: str, known: Sequence[str] = ()) -> Wheels:
    """The final releases that have a wheel and are not known, oldest first."""
    wheels = package_index.wheels_in(package_index.page(package))
    released = [one for one in map(Version, wheels) if one >= Version(OLDEST[package]) and not one.is_prerelease]
    versions = [str(version) for version in sorted(released) if str(version) not in known]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for start in range(0, len(versions), _AT_ONCE):
            some = versions[start : start + _AT_ONCE]
            yield from zip(some, pool.map(lambda one: package_index.open_wheel(wheels[one]), some), strict=True)


def _known_keywords(release: str) -> dict[str, object]:
    """Class -> its keyword in a release of the table."""
    rows = {"releases": table(LOGITS)["releases"], **table(LOGITS)["classes"]}
    return {name: keyword for name in model_classes() if name in rows and (keyword := _at(rows, name, release))}


def unpack(wheel: zipfile.ZipFile, package: str, folder: Path) -> PackageSource:
    """Unpacks the sources of a wheel that its facts are read from."""
    modules = {f"{module.replace('.', '/')}.py" for module in model_classes().values()}
    for name in wheel.namelist():
        is_shallow = name.count("/") <= 2 or package != "transformers"
        is_asked = is_shallow if package != "vllm" else name == "vllm/sampling_params.py"
        if name.startswith(f"{package}/") and name.endswith(".py") and (is_asked or name in modules):
            wheel.extract(name, folder)
    return PackageSource(package, folder / package)


def to_json_value(keyword: LogitsKeyword) -> dict[str, object]:
    """One span's value in the table; what is false is left out."""
    flags = {"translated": keyword.translated, "swallows": keyword.swallows}
    return {"name": keyword.name, **{name: True for name, is_true in flags.items() if is_true}}


_read_before: dict[tuple[str, str], Mapping[str, object] | None] = {}


def _logits_keywords(source: PackageSource) -> dict[str, object]:
    """Class -> its keyword; a file that two releases share is parsed once."""
    found: dict[str, object] = {}
    for name, module in model_classes().items():
        file = source.folder.joinpath(*module.split(".")[1:]).with_suffix(".py")
        if not file.is_file():
            continue
        key = (file_sha256(file), name)
        if key not in _read_before:
            keyword = read_logits_keyword(source, module, name)
            _read_before[key] = None if keyword is None else to_json_value(keyword)
        if _read_before[key] is not None:
            found[name] = _read_before[key]
    return found


def _logits_text(keywords: Mapping[str, Mapping[str, object]]) -> str:
    releases = list(keywords)
    classes = {name: fold([one.get(name) for one in keywords.values()], releases) for name in sorted(model_classes())}
    known = {name: spans for name, spans in classes.items() if spans}
    return table_text({"models": table(LOGITS)["models"], "releases": releases, "classes": known})


def metadata_of(wheel: zipfile.ZipFile) -> str:
    """The text of its METADATA."""
    name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return wheel.read(name).decode("utf-8")


def _write(name: str, text: str) -> None:
    path = DATA / f"{name}.json"
    path.write_text(text, encoding="utf-8")
    table.cache_clear()
    print(f"{path.name}: {len(text)} bytes", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
