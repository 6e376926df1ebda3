"""Random valid recipes on every third release; tests/stacks/test_random_recipes_on_stacks.py has 500 for each."""

from itertools import cycle
from pathlib import Path

from carried_values import judged
from random_recipes import NEWEST, valid_recipes

from grpo_recipes.compare.expressible import with_trl
from grpo_recipes.facts.released.shipped import releases_with_facts
from grpo_recipes.resolve.resolve import resolve_source

RELEASES = releases_with_facts("trl")[::3]


def test_a_random_recipe_is_passed_in_full_or_refused(tmp_path: Path) -> None:
    recipes = cycle(valid_recipes(tmp_path, len(RELEASES) // 2, seed=1))
    taken = [
        judged(values, resolve_source(source, with_trl(NEWEST, release)))
        for release, (source, values) in zip(RELEASES, recipes, strict=False)
    ]
    assert 5 < sum(taken) < len(RELEASES)
