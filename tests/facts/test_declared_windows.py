"""STK012: what packages declare about each other is read as pip reads it."""

import pytest
from packaging.requirements import Requirement as PackagingRequirement
from packaging.specifiers import SpecifierSet
from support.releases import TESTED

from grpo_recipes.facts.released.requirements import (
    EXTRAS,
    Requirement,
    find_conflicts,
    requirements,
)
from grpo_recipes.facts.released.shipped import final_releases, table
from grpo_recipes.facts.released.windows import is_within
from grpo_recipes.stack.stack import PACKAGES, Stack


def declared(python: str | None = None, **packages: str | None) -> Stack:
    named = {name.replace("_", "-"): version for name, version in packages.items()}
    return Stack(python, named, None, None, True, "test")


@pytest.mark.parametrize(
    ("stack", "expected"),
    [
        pytest.param(
            declared(**{name: TESTED[name] for name in ("trl", "transformers", "accelerate", "peft")}), [], id="newest"
        ),
        pytest.param(declared(trl="0.14.0", transformers="4.48.3", torch="2.13.0+cpu"), [], id="oldest"),
        pytest.param(declared(trl="0.29.1"), [], id="the-other-is-unknown"),
        pytest.param(declared(trl="0.29.1", transformers=None), [], id="the-other-is-absent"),
        pytest.param(declared(trl="0.24.0", vllm=None, transformers="4.57.6"), [], id="extra-is-not-used"),
        pytest.param(declared(trl="main", transformers="4.48.3"), [], id="no-version"),
        pytest.param(
            declared(trl="0.29.1", transformers="4.48.3"), [("trl", "transformers>=4.56.2", None)], id="too-old"
        ),
        pytest.param(
            declared(trl="0.24.0", transformers="4.57.6", vllm="0.22.0", torch="2.11.0"),
            [("trl", "vllm==0.10.2", "vllm")],
            id="in-an-extra",
        ),
        pytest.param(
            declared(transformers="5.23.0", vllm="0.11.2"), [("vllm", "transformers>=4.56.0,<5", None)], id="vllm"
        ),
        pytest.param(declared(python="3.10.4", trl="1.16.0"), [("trl", "python>=3.11", None)], id="python"),
        pytest.param(
            declared(trl="1.0.0", transformers="5.1.0", deepspeed="0.18.9"),
            [("trl", "transformers!=5.1.0", "deepspeed")],
            id="one-release-left-out-by-an-extra",
        ),
    ],
)
def test_a_window_that_the_stack_is_outside_of_is_a_conflict(
    stack: Stack, expected: list[tuple[str, str, str | None]]
) -> None:
    found = find_conflicts(stack)
    assert [(c.package, str(c.requirement), c.requirement.extra) for c in found] == expected


@pytest.mark.parametrize(
    ("trl", "window"),
    [
        ("0.14.0", ">=4.46.0"),
        ("0.17.0", ">=4.46.0"),
        ("0.18.0", ">=4.50.0"),
        ("0.19.0", ">=4.51.0"),
        ("0.20.0", ">=4.53.2"),
        ("0.21.0", ">=4.55.0"),
        ("0.23.0", ">=4.56.1"),
        ("0.27.0", ">=4.56.2"),
    ],
)
def test_trl_asks_for_the_transformers_of_its_time(trl: str, window: str) -> None:
    declared_by_trl = requirements("trl", trl)
    assert declared_by_trl is not None
    assert Requirement("transformers", window) in declared_by_trl


def test_every_window_means_what_packaging_says() -> None:
    checked = 0
    for rows in table("requirements").values():
        for key, spans in rows.items():
            name = key.partition(" ")[0]
            versions = (
                ["3.9", "3.10.14", "3.11", "3.13.1", "3.14.0"] if name == "python" else final_releases(name)[-120:]
            )
            for window in {window for _, _, window in spans} if key != "releases" else ():
                official = SpecifierSet(window)
                for version in versions:
                    assert is_within(version, window) == official.contains(version, prereleases=True), (version, window)
                    checked += 1
    assert checked > 2000


@pytest.mark.parametrize(
    "window", ["~=2.0", "~=1.4.2", "==1.*", "!=5.1.*", "<2", ">1.0", "<=1.4", "==1.4.2", "!=1.4.2"]
)
@pytest.mark.parametrize(
    "version", ["1.0.post1", "1.4.2", "1.4.2+cpu", "1.4", "2.0rc1", "2.0", "2.1.dev1", "5.1.7", "10"]
)
def test_clauses_mean_what_packaging_says(version: str, window: str) -> None:
    public = version.partition("+")[0]
    assert is_within(version, window) == SpecifierSet(window).contains(public, prereleases=True)


@pytest.mark.parametrize(("version", "window"), [("main", ">=1"), ("1.0", "1.0"), ("1.0", ">=x")])
def test_what_is_no_version_or_window_is_an_error(version: str, window: str) -> None:
    with pytest.raises(ValueError):
        is_within(version, window)


def test_the_table_speaks_of_packages_of_a_stack() -> None:
    for package, rows in table("requirements").items():
        assert package in PACKAGES
        for key in set(rows) - {"releases"}:
            name, _, extra = key.partition(" for ")
            assert name in (*PACKAGES, "python")
            assert not extra or extra in EXTRAS
            assert all(PackagingRequirement(f"{name}{window}") for _, _, window in rows[key])
