"""The environment beside the recipe that sorts names in turns."""

import importlib.util
import json

import pytest
from kept_recipes import ROOT

_SPEC = importlib.util.spec_from_file_location("names", ROOT / "recipes/qwen3_alphabet_sort/names.py")
assert _SPEC is not None and _SPEC.loader is not None
module = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(module)

ROW = json.dumps(["Engin Durgun", "Deniz Cakir", "Nurten Akman"])


def _game(by: str) -> object:
    game = module.Names(names_per_turn=1, turns=3)
    game.reset(names=ROW, by=by, source="a row may have more columns")
    return game


def test_three_right_lists_score_one() -> None:
    game = _game("last")
    assert "Add these names: DenizCakir. Submit all names, sorted by last name" in game.submit(["EnginDurgun"])
    assert "NurtenAkman" in game.submit(["DenizCakir // new name!", "EnginDurgun"])
    assert game.submit(["NurtenAkman // new name!", "denizcakir", "EnginDurgun "]) == "That was the last list."
    assert module.score([game]) == [1.0]
    with pytest.raises(ValueError, match="all names were submitted"):
        game.submit([])


def test_a_missing_list_counts_as_zero_and_a_new_game_forgets_the_old_one() -> None:
    game = _game("first")
    game.submit(["EnginDurgun"])
    assert module.score([game]) == [pytest.approx((1 / 3) ** 8)]
    game.reset(names=ROW, by="first")
    assert module.score([game]) == [0.0]


def test_the_order_is_by_the_name_that_the_row_says() -> None:
    lists = {}
    for by in ("first", "last"):
        game = _game(by)
        lists[by] = game._sorted(2)
    assert lists["first"] == ["DenizCakir", "EnginDurgun", "NurtenAkman // new name!"]
    assert lists["last"] == ["NurtenAkman // new name!", "DenizCakir", "EnginDurgun"]
