"""These tests change what is installed, which one process otherwise looks up once."""

from collections.abc import Iterator

import pytest

from grpo_recipes.facts import facts


@pytest.fixture(autouse=True)
def looked_up_anew() -> Iterator[None]:
    for lookup in (facts._installed_here, facts._installed_facts):
        lookup.cache_clear()
    yield
    for lookup in (facts._installed_here, facts._installed_facts):
        lookup.cache_clear()
