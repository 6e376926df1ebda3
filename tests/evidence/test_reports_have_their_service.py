"""TRN003: what the Trainer raises for services."""

import pytest
from library import Library

from grpo_recipes.facts.released.shipped import table
from grpo_recipes.stack.stack import installed_packages

pytestmark = pytest.mark.stack


def test_a_service_raises_if_and_only_if_its_package_is_missing(library: Library) -> None:
    installed, raised = installed_packages(), library.call("in_training.services").result
    assert set(raised) == set(table("trainer_words")["services"])
    for service, packages in table("trainer_words")["services"].items():
        if packages:
            assert bool(raised[service]) == (not any(installed[package] for package in packages)), service


@pytest.mark.parametrize("services", [["wanddb"], ["all", "wandb"], ["none", "all"]])
def test_other_words_raise_when_the_trainer_is_built(library: Library, services: list[str]) -> None:
    answer = library.call("build", arguments={"report_to": services})
    assert (answer.raised, answer.stage) == ("ValueError", "trainer")
    assert "is not supported, only" in answer.text


@pytest.mark.parametrize("services", [["all"], ["none"]])
def test_these_words_alone_build(library: Library, services: list[str]) -> None:
    assert library.call("build", arguments={"report_to": services}).raised == ""
