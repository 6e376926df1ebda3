"""Shipped facts stand for an installed package while its files are those of the release, and no longer."""

import shutil
from pathlib import Path

import pytest

from grpo_recipes.facts.facts import DIGESTS, as_released
from grpo_recipes.facts.released.shipped import releases_with_facts, table
from grpo_recipes.facts.source import read_package as reader
from grpo_recipes.facts.source.cache import installed_facts
from grpo_recipes.facts.source.package_facts import MODULES, package_folder, package_to_json_value
from grpo_recipes.facts.source.package_source import PackageSource
from grpo_recipes.facts.source.read_package import read_package
from grpo_recipes.stack.stack import installed_packages

INSTALLED = [(name, version) for name, version in installed_packages().items() if name in MODULES and version]


def _folder(package: str) -> Path:
    folder = package_folder(package)
    assert folder is not None
    return folder


@pytest.mark.parametrize(("package", "version"), INSTALLED)
def test_what_stands_for_a_real_package_is_what_its_source_says(package: str, version: str) -> None:
    source = PackageSource(package, _folder(package))
    read = read_package(source, version)
    known = as_released(package, version, _folder(package))
    assert read is not None
    assert known is not None, f"{package} {version}: run make facts"
    assert package_to_json_value(known.facts) == package_to_json_value(read)
    assert sorted(known.files) == sorted(source.files.values())


@pytest.fixture
def copied(tmp_path: Path) -> tuple[str, Path]:
    """The version of the installed peft, and a folder with the files of it that facts are read from."""
    version = dict(INSTALLED)["peft"]
    known = as_released("peft", version, _folder("peft"))
    assert known is not None
    for file in known.files:
        place = tmp_path / "peft" / file.relative_to(_folder("peft"))
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)
    (tmp_path / "peft/__init__.py").touch()
    return version, tmp_path / "peft"


def test_a_file_that_differs_in_one_byte_is_read(copied: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    version, folder = copied
    assert as_released("peft", version, folder) is not None
    config = folder / "tuners/lora/config.py"
    config.write_text(config.read_text().replace("    r: int = field(default=8", "    r: int = field(default=9", 1))
    assert as_released("peft", version, folder) is None
    monkeypatch.setattr("sys.path", [str(folder.parent)])
    facts = installed_facts("peft", version, as_released)
    assert facts is not None
    assert facts.owners["LoraConfig"].fields["r"].default == 9


def test_a_file_that_is_gone_is_read(copied: tuple[str, Path]) -> None:
    version, folder = copied
    (folder / "config.py").unlink()
    assert as_released("peft", version, folder) is None


@pytest.mark.parametrize("version", ["0.21.2.dev0", "99.0", "odd"])
def test_a_version_that_is_no_release_is_read(copied: tuple[str, Path], version: str) -> None:
    assert as_released("peft", version, copied[1]) is None


def test_another_release_is_not_taken_for_this_one(copied: tuple[str, Path]) -> None:
    older = releases_with_facts("peft")[0]
    assert as_released("peft", older, copied[1]) is None


def test_without_a_cache_no_source_is_parsed(copied: tuple[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the source was read")

    monkeypatch.setattr(reader, "read_package", refuse)
    monkeypatch.setattr("sys.path", [str(copied[1].parent)])
    monkeypatch.setenv("XDG_CACHE_HOME", "/dev/null")
    assert installed_facts("peft", copied[0], as_released) is not None


def test_every_release_with_facts_has_a_digest() -> None:
    assert {name: tuple(known["releases"]) for name, known in table(DIGESTS).items()} == {
        name: releases_with_facts(name) for name in MODULES
    }, "make facts"
