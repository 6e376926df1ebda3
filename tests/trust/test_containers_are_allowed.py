"""The image that a job trains in is asked for as code is: it has the user's rights and home."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.plans import small_plan

from grpo_recipes.contract.exits import Refusal
from grpo_recipes.contract.plan import Plan
from grpo_recipes.trust.code import code_parts
from grpo_recipes.trust.folders import consent


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home/.config"))


def in_a_container(image: str, **more: Any) -> Plan:
    """The plan of a job in a container."""
    return replace(small_plan(), job={"container": {"image": image, "runtime": "pyxis", "mounts": [], **more}})


def asked(plan: Plan, *allowed: str) -> bool:
    """Whether a run of the plan is refused until somebody allows its image."""
    try:
        consent(code_parts(plan), allowed, [])
    except Refusal as refusal:
        assert "container image" in refusal.findings[0].because[0]
        return True
    return False


def test_a_file_is_allowed_once_until_it_or_what_it_is_given_changes(tmp_path: Path) -> None:
    image = tmp_path / "run.sqsh"
    image.write_text("one")
    (part,) = code_parts(in_a_container(str(image)))
    assert asked(in_a_container(str(image)))
    assert not asked(in_a_container(str(image)), part.sha256)
    assert not asked(in_a_container(str(image)))
    assert asked(in_a_container(str(image), mounts=["/etc"]))
    os.utime(image, ns=(1, 1))
    assert asked(in_a_container(str(image)))


@pytest.mark.parametrize("image", ["nvcr.io#team/run:1", "."])
def test_what_is_something_else_tomorrow_is_asked_for_each_time(image: str) -> None:
    (part,) = code_parts(in_a_container(image))
    assert not asked(in_a_container(image), part.sha256)
    assert asked(in_a_container(image))


def test_a_digest_is_allowed_once() -> None:
    image = f"nvcr.io#team/run@sha256:{'0' * 64}"
    (part,) = code_parts(in_a_container(image))
    assert not asked(in_a_container(image), part.sha256)
    assert not asked(in_a_container(image))
