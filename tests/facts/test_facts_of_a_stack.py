"""Facts come from the installed package when it is the stack's, else from what is shipped, else they are unknown."""

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from source_trees import TRANSFORMERS, TRL, install
from support.releases import TESTED

from grpo_recipes.facts.facts import facts_for
from grpo_recipes.facts.released.shipped import (
    facts_of_release,
    newest_release,
    releases_date,
    releases_with_facts,
    removal,
    same_version,
    table,
)
from grpo_recipes.facts.source.package_facts import MODULES, NOT_IN_ALL_RELEASES
from grpo_recipes.stack.stack import PACKAGES, Stack

Declare = Callable[..., Stack]


@pytest.fixture
def declare(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Declare:
    """A declared stack, on a machine where nothing is installed and the cache is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", [str(tmp_path / "site")])

    def stack(**packages: str | None) -> Stack:
        return Stack(None, packages, None, None, True, "test")

    return stack


def test_a_laptop_without_the_packages_answers_for_the_shipped_releases(declare: Declare) -> None:
    facts = facts_for(declare(trl="1.16.0", transformers="5.23", peft="0.21.2"))
    fields = facts.fields("GRPOConfig")
    assert fields is not None
    assert len(fields) == 191
    assert fields["loss_type"].default == "dapo"
    assert "vespo" in (fields["loss_type"].allowed or ())
    assert fields["learning_rate"].default == 1e-6
    assert fields["weight_decay"].default == 0.0
    assert "cosine" in (fields["lr_scheduler_type"].allowed or ())
    assert facts.source("GRPOConfig") == "trl 1.16.0 (released)"
    assert facts.source("TrainingArguments") == "transformers 5.23.0 (released)"
    assert "peft_config" in (facts.parameters("GRPOTrainer") or ())
    for owner in ("LoraConfig", "BitsAndBytesConfig"):
        assert facts.fields(owner)


def test_what_is_not_known_is_none_and_not_empty(declare: Declare) -> None:
    facts = facts_for(declare(trl="1.16.0", transformers="4.0.0", peft=None))
    assert facts.fields("GRPOConfig") is None
    assert facts.own_fields("GRPOConfig") is not None
    assert facts.fields("TrainingArguments") is None
    assert facts.fields("LoraConfig") is None
    assert facts.fields("NoSuchClass") is None
    assert facts.parameters("LoraConfig") is None
    assert facts.source("LoraConfig") is None


def test_the_installed_package_wins_only_with_the_version_of_the_stack(tmp_path: Path, declare: Declare) -> None:
    install(tmp_path / "site", TRL, "1.16.0")
    install(tmp_path / "site", TRANSFORMERS, "4.99.0")
    facts = facts_for(declare(trl="1.16.0", transformers="5.23.0"))
    assert facts.source("GRPOConfig") == "trl 1.16.0 (installed)"
    assert facts.source("TrainingArguments") == "transformers 5.23.0 (released)"
    fields = facts.fields("GRPOConfig")
    assert fields is not None
    assert "level" in fields
    assert "weight_decay" in fields


def test_a_field_keeps_the_closed_set_of_the_base_that_it_overrides(tmp_path: Path, declare: Declare) -> None:
    install(tmp_path / "site", TRL, "1.16.0")
    facts = facts_for(declare(trl="1.16.0", transformers="5.23.0"))
    assert facts.own_fields("GRPOConfig")["eval_strategy"].allowed is None  # type: ignore[index]
    assert facts.fields("GRPOConfig")["eval_strategy"].allowed == ("no", "steps", "epoch")  # type: ignore[index]


def test_a_machine_whose_source_cannot_be_read_falls_back_to_what_is_shipped(tmp_path: Path, declare: Declare) -> None:
    install(tmp_path / "site", {"trl/__init__.py": ""}, "1.16.0")
    assert facts_for(declare(trl="1.16.0")).source("GRPOConfig") == "trl 1.16.0 (released)"


@pytest.mark.parametrize(
    ("package", "version", "expected"),
    [
        pytest.param("trl", "1.16.0", "known", id="facts-are-shipped"),
        pytest.param("trl", "1.16", "known", id="written-shorter"),
        pytest.param("torch", "2.13.0+cpu", "known", id="local-build-of-a-release"),
        pytest.param("transformers", "4.57.0", "known", id="withdrawn"),
        pytest.param("trl", "0.15.2", "known", id="old"),
        pytest.param("transformers", "4.30.0", "released", id="without-facts"),
        pytest.param("trl", "99.0", "newer", id="newer-than-the-table"),
        pytest.param("trl", "0.15.9", "never", id="never-released"),
        pytest.param("torch", "2.14.0.dev20260901", "unknown", id="development"),
        pytest.param("numpy", "2.0", "unknown", id="package-outside-the-table"),
        pytest.param("trl", "main", "unknown", id="no-version"),
    ],
)
def test_the_status_of_a_release_is_told_apart(declare: Declare, package: str, version: str, expected: str) -> None:
    assert facts_for(declare()).release_status(package, version) == expected


def test_an_installed_development_version_is_known(tmp_path: Path, declare: Declare) -> None:
    install(tmp_path / "site", TRL, "1.17.0.dev0")
    assert facts_for(declare(trl="1.17.0.dev0")).release_status("trl", "1.17.0.dev0") == "known"


@pytest.mark.parametrize(
    ("owner", "name", "stack", "removed_in"),
    [
        pytest.param("GRPOConfig", "beta", {"trl": "1.16.0"}, None, id="never-went"),
        pytest.param("GRPOConfig", "max_prompt_length", {"trl": "0.27.2"}, None, id="not-yet"),
        pytest.param("GRPOConfig", "use_transformers_paged", {"trl": "1.16.0"}, None, id="only-deprecated"),
        pytest.param("LoraConfig", "max_prompt_length", {"trl": "1.16.0"}, None, id="another-class"),
        pytest.param("GRPOConfig", "max_prompt_length", {"trl": "0.28.0"}, "0.28.0", id="in-this-release"),
        pytest.param("GRPOConfig", "warmup_ratio", {"transformers": "5.23.0"}, "5.15.0", id="of-the-base"),
        pytest.param("TrainingArguments", "no_cuda", {}, "5.0.0", id="version-is-not-known"),
    ],
)
def test_a_removed_field_names_the_release_and_what_to_write(
    declare: Declare, owner: str, name: str, stack: dict[str, str], removed_in: str | None
) -> None:
    found = facts_for(declare(**stack)).removal_of(owner, name)
    assert (found.removed_in if found else None) == removed_in
    assert found is None or found.instead


def test_the_reviewed_removals_agree_with_the_shipped_facts(declare: Declare) -> None:
    facts = facts_for(declare(trl="1.16.0", transformers="5.23.0"))
    fields = facts.fields("GRPOConfig")
    assert fields is not None
    for owner in table("removed"):
        entries = table("removed")[owner]
        assert isinstance(entries, dict)
        for name in entries:
            found = removal(owner, name)
            assert found is not None
            assert (name in fields) == (found.removed_in is None), name
            assert found.renamed_to is None or found.renamed_to in fields, name
            assert found.removed_in or found.deprecated_in, name
            version = found.removed_in or found.deprecated_in or ""
            assert facts.release_status(found.package, version) in ("known", "released"), name


@pytest.mark.parametrize("package", sorted(MODULES))
def test_every_release_that_is_listed_unfolds_to_its_classes(package: str) -> None:
    assert len(releases_with_facts(package)) > 20
    for version in releases_with_facts(package):
        facts = facts_of_release(package, version)
        assert facts is not None
        assert (facts.package, facts.version) == (package, version)
        assert set(MODULES[package]) - set(facts.owners) <= NOT_IN_ALL_RELEASES
        assert all(owner.fields for owner in facts.owners.values())


@pytest.mark.parametrize(
    ("package", "version", "source"),
    [
        pytest.param("trl", "0.15.2", "trl 0.15.2 (released)", id="was-read"),
        pytest.param("trl", "99.0", f"trl 99.0 (as {TESTED['trl']})", id="newer-than-all"),
        pytest.param("trl", "0.15.3.dev0", "trl 0.15.3.dev0 (as 0.15.2)", id="development-of-a-patch"),
        pytest.param("trl", "0.15.9", None, id="never-released"),
        pytest.param("trl", "0.13.0", None, id="older-than-all"),
        pytest.param("trl", "main", None, id="no-version"),
    ],
)
def test_a_version_without_facts_of_its_own_says_whose_it_has(
    declare: Declare, package: str, version: str, source: str | None
) -> None:
    assert facts_for(declare(**{package: version})).source("GRPOConfig") == source


def test_the_table_of_releases_has_a_date_and_every_package() -> None:
    assert len(releases_date().split("-")) == 3
    for package in PACKAGES:
        assert newest_release(package), package
    assert newest_release("numpy") is None


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [("1.16", "1.16.0", True), ("2.13.0", "2.13.0+cpu", True), ("1.16.0", "1.16.1", False), ("x", "x", True)],
)
def test_two_spellings_of_one_release_are_the_same(one: str, other: str, expected: bool) -> None:
    assert same_version(one, other) is expected
