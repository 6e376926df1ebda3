"""docs/failures.md: each failure that was met in public gets its finding, or has a test that shows it."""

import re
from pathlib import Path

import pytest
from failures_page import Failure, failures

from grpo_recipes.explain.pages import known_ids

ROOT = Path(__file__).parents[2]
THREAD = re.compile(r"[\w.-]+/[\w.-]+/(issues|pull)/\d+")


def _name(failure: Failure) -> str:
    return failure.where[0]


@pytest.mark.parametrize("failure", [one for one in failures() if not one.proved_by], ids=_name)
def test_a_recipe_with_the_mistake_gets_the_finding(failure: Failure) -> None:
    assert failure.error()


@pytest.mark.parametrize("failure", [one for one in failures() if one.proved_by], ids=_name)
def test_what_is_found_later_has_a_test_that_shows_it(failure: Failure) -> None:
    file, _, function = failure.proved_by.partition("::")
    assert f"\ndef {function}(" in (ROOT / file).read_text(encoding="utf-8")
    assert failure.answer


def test_every_failure_has_a_known_finding_and_a_thread() -> None:
    assert len(failures()) > 20
    assert [one.finding for one in failures() if one.finding not in known_ids()] == []
    assert [where for one in failures() for where in one.where if not THREAD.fullmatch(where)] == []
    assert [one.happened for one in failures() if not one.where] == []
