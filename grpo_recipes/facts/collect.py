"""Renews the shipped facts; for maintainers: `python -m grpo_recipes.facts.collect [--releases]`.

Writes data/<package>-<version>.json from the installed packages, or with --releases data/releases.json from
the package index.
"""

import datetime
import json
import sys
import urllib.request
from html.parser import HTMLParser
from pathlib import Path

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import Version

from grpo_recipes.facts.package_facts import MODULES, package_to_json_value
from grpo_recipes.facts.package_folder import package_folder
from grpo_recipes.facts.read_package import read_package
from grpo_recipes.facts.shipped import DATA
from grpo_recipes.facts.source import PackageSource
from grpo_recipes.stack.installed import installed_packages
from grpo_recipes.stack.stack import PACKAGES

_INDEX = "https://pypi.org/simple"
_TIMEOUT_S = 60.0


def collect(package: str, version: str) -> str:
    """The text of an installed package's data file. Raises LookupError for source of another shape."""
    folder = package_folder(package)
    facts = None if folder is None else read_package(PackageSource(package, folder), version)
    if facts is None:
        raise LookupError(f"{package} {version} has no readable {', '.join(MODULES[package])}")
    return json.dumps(package_to_json_value(facts), indent=1, ensure_ascii=False) + "\n"


def versions_in(page: str) -> list[str]:
    """Every version that a page of the index lists, oldest first; withdrawn ones were released too."""
    links = _Links()
    links.feed(page)
    found = set[Version]()
    for name in links.names:
        try:
            found.add(parse_wheel_filename(name)[1])
        except InvalidWheelFilename:
            try:
                found.add(parse_sdist_filename(name)[1])
            except InvalidSdistFilename:
                continue
    return [str(version) for version in sorted(found)]


def main(arguments: list[str]) -> int:
    """Writes the data files, one line to stdout for each."""
    if arguments == ["--releases"]:
        packages = {package: versions_in(_page(package)) for package in PACKAGES}
        day = datetime.datetime.now(datetime.UTC).date().isoformat()
        lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(known)}" for name, known in packages.items())
        text = f'{{\n "date": "{day}",\n "source": "{_INDEX}",\n "packages": {{\n{lines}\n }}\n}}\n'
        return _write(DATA / "releases.json", text)
    installed = installed_packages()
    for package in MODULES:
        version = installed[package]
        if version is not None:
            _write(DATA / f"{package}-{version}.json", collect(package, version))
    return 0


class _Links(HTMLParser):
    """The texts of the links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def handle_data(self, data: str) -> None:
        if data.strip():
            self.names.append(data.strip())


def _page(package: str) -> str:
    with urllib.request.urlopen(f"{_INDEX}/{package}/", timeout=_TIMEOUT_S) as answer:
        return str(answer.read().decode("utf-8"))


def _write(path: Path, text: str) -> int:
    path.write_text(text, encoding="utf-8")
    print(f"{path.name}: {len(text)} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
