"""The shipped recipes are found wherever an installer put them."""

from importlib import metadata
from pathlib import Path

import pytest

import grpo_recipes
from grpo_recipes.yaml.parents import shipped_files, shipped_folder

NAME = "share/grpo-recipes/recipes/quickstart.yaml"


def installed(packages: Path, recorded: str, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets the package be found in `packages`, with a RECORD, and its data somewhere."""
    record = packages / "grpo_recipes-0.1.0.dist-info" / "RECORD"
    record.parent.mkdir(parents=True)
    record.write_text(f"{recorded},,\n")
    (record.parent / "METADATA").write_text("Metadata-Version: 2.1\nName: grpo-recipes\nVersion: 0.1.0\n")
    (data / NAME).parent.mkdir(parents=True)
    (data / NAME).write_text("recipe: 1\n")
    monkeypatch.setattr(grpo_recipes, "__file__", str(packages / "grpo_recipes/__init__.py"))
    own = metadata.Distribution.at(record.parent)
    monkeypatch.setattr(metadata, "distribution", lambda _: own)


def test_a_checkout_has_them_in_recipes() -> None:
    assert shipped_folder() == Path(__file__).parents[2] / "recipes"


def test_an_environment_has_them_where_its_record_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path / "lib/python3.11/site-packages", f"../../../{NAME}", tmp_path, monkeypatch)
    assert shipped_files() == {"quickstart": tmp_path / NAME}


def test_a_target_folder_has_them_beside_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "some/target"
    installed(target, f"../../{NAME}", target, monkeypatch)
    assert shipped_files() == {"quickstart": target / NAME}


def test_a_record_of_what_is_gone_is_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path / "packages", f"../{NAME}", tmp_path / "elsewhere", monkeypatch)
    assert (shipped_folder(), shipped_files()) == (None, {})
