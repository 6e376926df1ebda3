"""Renews the shipped facts from the package index: `make facts`, or `python tests/facts/collect_facts.py [STEP...]`.

Steps: releases; trl, transformers, peft, vllm (fields, and for transformers the logits keywords); requirements;
digests (of the files that fields were read from).
Wheels are read block by block; their sources lie in a temporary folder while they are read.
"""

import datetime
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from email.parser import HeaderParser
from pathlib import Path

import package_index
from folding import fold, fold_facts, folded_text, table_text
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from grpo_recipes.contract.files.regular_file import file_sha256
from grpo_recipes.facts.facts import source_sha256
from grpo_recipes.facts.released.logits import TABLE as LOGITS
from grpo_recipes.facts.released.logits import model_classes
from grpo_recipes.facts.released.requirements import EXTRAS
from grpo_recipes.facts.released.requirements import TABLE as REQUIREMENTS
from grpo_recipes.facts.released.shipped import DATA, facts_of_release, table
from grpo_recipes.facts.source.package_facts import MODULES, LogitsKeyword, PackageFacts
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


def main(steps: list[str]) -> int:
    """Writes the data files of the steps, of all without any, one line to stdout for each."""
    known: dict[str, Callable[[], None]] = {
        "releases": collect_releases,
        **{package: lambda package=package: collect_package(package) for package in MODULES},  # type: ignore[misc]
        "requirements": collect_requirements,
        "digests": collect_digests,
    }
    if unknown := [step for step in steps if step not in known]:
        print(f"{unknown[0]} is no step; there are {', '.join(known)}", file=sys.stderr)
        return 2
    for step in steps or known:
        known[step]()
    return 0


def collect_releases() -> None:
    """Writes releases.json: every version of every package of a stack, and the day."""
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    packages = {package: package_index.versions_in(package_index.page(package)) for package in PACKAGES}
    _write("releases", table_text({"date": day, "source": package_index.INDEX, "packages": packages}))


def collect_package(package: str) -> None:
    """Writes <package>.json, for transformers logits_keyword.json too. Raises LookupError for an unreadable release."""
    facts: list[PackageFacts] = []
    keywords: dict[str, Mapping[str, object]] = {}
    for version, wheel in _wheels(package):
        with wheel, tempfile.TemporaryDirectory() as folder:
            source = _unpacked(wheel, package, Path(folder))
            read = read_package(source, version)
            if read is None:
                raise LookupError(f"{package} {version} has no readable {', '.join(MODULES[package])}")
            facts.append(read)
            if package == "transformers":
                keywords[version] = _logits_keywords(source)
    _write(package, folded_text(fold_facts(facts)))
    if keywords:
        _write(LOGITS, _logits_text(keywords))


def collect_requirements() -> None:
    """Writes requirements.json: the windows that the metadata of each release declares."""
    packages = {}
    for package in OLDEST:
        releases = {}
        for version, wheel in _wheels(package):
            with wheel:
                releases[version] = declared_windows(_metadata(wheel))
        packages[package] = {
            "releases": list(releases),
            **{key: fold(values, list(releases)) for key, values in windows_by_key(releases).items()},
        }
    _write(REQUIREMENTS, table_text(packages))


def collect_digests() -> None:
    """Writes digests.json: of each release whose facts are shipped the files that they are read from, and one digest.

    Raises LookupError for a release whose shipped facts are not what its files say.
    """
    packages = {}
    for package in MODULES:
        names: dict[str, list[str]] = {}
        digests: dict[str, str] = {}
        for version, wheel in _wheels(package):
            shipped = facts_of_release(package, version)
            if shipped is None or shipped.version != version:
                continue
            with wheel, tempfile.TemporaryDirectory() as folder:
                source = _unpacked(wheel, package, Path(folder))
                read = read_package(source, version)
                if read != shipped:
                    raise LookupError(f"{package} {version} says something else than {package}.json")
                names[version] = sorted(file.relative_to(source.folder).as_posix() for file in source.files.values())
                digests[version] = source_sha256(source.folder, names[version])
        releases = list(names)
        packages[package] = {
            "releases": releases,
            "files": fold(list(names.values()), releases),
            "sha256": fold(list(digests.values()), releases),
        }
    _write("digests", table_text(packages))


def _wheels(package: str) -> Iterator[tuple[str, zipfile.ZipFile]]:
    """The final releases that have a wheel, oldest first."""
    wheels = package_index.wheels_in(package_index.page(package))
    wanted = [one for one in map(Version, wheels) if one >= Version(OLDEST[package]) and not one.is_prerelease]
    versions = [str(version) for version in sorted(wanted)]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        for start in range(0, len(versions), _AT_ONCE):
            some = versions[start : start + _AT_ONCE]
            yield from zip(some, pool.map(lambda one: package_index.open_wheel(wheels[one]), some), strict=True)


def _unpacked(wheel: zipfile.ZipFile, package: str, folder: Path) -> PackageSource:
    """The sources of a wheel that its facts are read from, unpacked."""
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


def _metadata(wheel: zipfile.ZipFile) -> str:
    name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return wheel.read(name).decode("utf-8")


def _write(name: str, text: str) -> None:
    path = DATA / f"{name}.json"
    path.write_text(text, encoding="utf-8")
    print(f"{path.name}: {len(text)} bytes", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
