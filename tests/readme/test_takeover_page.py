"""docs/takeover.md: the table has keys of a recipe, and the names of other tools as `validate` knows them."""

import re

from shown import pages

from grpo_recipes.schemas.fast_accept import recipe_keys
from grpo_recipes.schemas.other_names import other_names

ROWS = re.findall(r"(?m)^\| `([\w.]+)` \|(.*)\|$", pages()["docs/takeover.md"])


def test_the_keys_of_the_table_are_those_of_a_recipe() -> None:
    assert len(ROWS) > 12
    assert [key for key, _ in ROWS if key != "rewards" and key not in recipe_keys()] == []


def test_the_names_of_other_tools_mean_what_validate_says_of_them() -> None:
    known, seen = other_names()["keys"], 0
    for key, cells in ROWS:
        for name in re.findall(r"`[\w.]*?(\w+)`", cells):
            section = key.partition(".")[0]
            row = known.get(f"{section}.{name}") or known.get(name)
            if row is not None and name != key.rpartition(".")[2]:
                seen += 1
                assert row.get("home") == key or key.rpartition(".")[2] in row.get("instead", ""), (key, name)
    assert seen > 10
