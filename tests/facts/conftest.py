"""Clears cached look-ups, since these tests change what is installed."""

from collections.abc import Iterator

import pytest

from grpo_recipes.facts import facts


@pytest.fixture(autouse=True)
def looked_up_anew() -> Iterator[None]:
    for lookup in (facts._read_installed, facts._facts_of_installed):
        lookup.cache_clear()
    yield
    for lookup in (facts._read_installed, facts._facts_of_installed):
        lookup.cache_clear()
