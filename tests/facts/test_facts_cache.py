"""The cache saves time and is never trusted: whatever is wrong with it, the source is read again."""

import json
import os
import sys
from pathlib import Path

import pytest
from source_trees import TRL, install
from support.work import calls

from grpo_recipes.contract.files.own_cache import cache_folder
from grpo_recipes.facts.source import read_package
from grpo_recipes.facts.source.cache import installed_facts
from grpo_recipes.facts.source.package_facts import PackageFacts


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of installed packages, with a small trl 1.0 in it."""
    folder = tmp_path / "site"
    install(folder, TRL, "1.0")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", [str(folder)])
    return folder


def facts() -> PackageFacts:
    found = installed_facts("trl", "1.0")
    assert found is not None
    return found


def entry() -> Path:
    folder = cache_folder()
    assert folder is not None
    (file,) = (folder / "facts").iterdir()
    return file


def forbid_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the source was read again")

    monkeypatch.setattr(read_package, "read_package", refuse)


def test_the_second_answer_is_the_first_without_reading_source(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = facts()
    forbid_reading(monkeypatch)
    assert facts() == first


def test_a_changed_file_is_read_again(site: Path) -> None:
    assert "novel" not in facts().owners["GRPOConfig"].fields
    path = site / "trl/trainer/base_config.py"
    path.write_text(path.read_text() + "    novel: int = 3\n")
    assert facts().owners["GRPOConfig"].fields["novel"].default == 3


def test_another_version_in_the_same_folder_is_read_again(site: Path) -> None:
    facts()
    found = installed_facts("trl", "1.1")
    assert found is not None
    assert found.version == "1.1"


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\x80\x00{", id="binary"),
        pytest.param(b"[]", id="list"),
        pytest.param(b'{"files": {}, "reader": {}}', id="no-files"),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(b" " * 4_194_305, id="large"),
    ],
)
def test_a_damaged_cache_is_replaced(site: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    first = facts()
    entry().write_bytes(content)
    assert facts() == first
    forbid_reading(monkeypatch)
    assert facts() == first


@pytest.mark.parametrize("damage", ["facts", "owner", "field"])
def test_a_cache_with_facts_of_another_shape_is_replaced(site: Path, damage: str) -> None:
    first = facts()
    value = json.loads(entry().read_text())
    if damage == "facts":
        value["facts"] = {"package": "trl"}
    elif damage == "owner":
        value["facts"]["owners"]["GRPOConfig"] = None
    else:
        value["facts"]["owners"]["GRPOConfig"]["fields"]["beta"] = {"annotation": 3, "default": 0}
    entry().write_text(json.dumps(value))
    assert facts() == first


def test_a_cache_of_another_user_is_not_believed(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = facts()
    value = json.loads(entry().read_text())
    value["facts"]["owners"]["GRPOConfig"]["fields"]["beta"]["default"] = 0.5
    entry().write_text(json.dumps(value))
    assert facts().owners["GRPOConfig"].fields["beta"].default == 0.5
    monkeypatch.setattr(os, "getuid", lambda: 4242)
    assert facts() == first


@pytest.mark.parametrize("place", ["file-in-the-way", "null-device"])
def test_a_cache_that_cannot_be_written_never_stops_the_answer(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked) if place == "file-in-the-way" else os.devnull)
    assert facts().owners["GRPOConfig"].fields
    assert blocked.read_text() == ""


def test_a_full_disk_leaves_no_half_written_file(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    assert facts().owners["GRPOConfig"].fields
    folder = cache_folder()
    assert folder is not None
    assert list((folder / "facts").iterdir()) == []


@pytest.mark.parametrize("configured", ["", "relative/cache"], ids=["unset", "relative"])
def test_the_cache_lies_in_the_home_unless_an_absolute_folder_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, configured: str
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", configured)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "grpo-run"


def test_a_package_that_is_not_installed_has_no_facts(site: Path) -> None:
    assert installed_facts("peft", "0.21.2") is None
    assert installed_facts("numpy", "2.0") is None


def test_a_cached_answer_makes_few_calls(site: Path) -> None:
    first = calls(facts)
    cached = calls(facts)
    assert cached < 2_000 and cached < first / 2, (first, cached)
