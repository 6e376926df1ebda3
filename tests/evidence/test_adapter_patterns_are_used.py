"""LRA004: a key of rank_pattern that finds no adapted module is left out, and a rank of nothing raises."""

from typing import Any

import pytest
from library import Library

pytestmark = pytest.mark.stack


def test_a_right_key_is_used(library: Library) -> None:
    answer = library.call("in_model.adapt", lora={"r": 2, "target_modules": ["q_proj"], "rank_pattern": {"q_proj": 4}})
    assert answer.raised == ""
    assert [text for text in answer.warnings if "rank_pattern" in text] == []


@pytest.mark.parametrize("field", ["rank_pattern", "alpha_pattern"])
@pytest.mark.parametrize("key", ["q_prj", "k_proj", "proj"])
def test_a_key_that_finds_no_adapted_module_is_left_out(library: Library, field: str, key: str) -> None:
    answer = library.call("in_model.adapt", lora={"r": 2, "target_modules": ["q_proj"], field: {key: 4}})
    assert answer.raised == ""
    assert [key in text for text in answer.warnings if field in text] == [True]


@pytest.mark.parametrize(
    "further",
    [
        {"rank_pattern": {"q_proj": 0}},
        {"rank_pattern": {"q_proj": 4.5}},
        {"alpha_pattern": {"q_proj": "all"}},
        {"rank_pattern": {"*q": 4}},
        {"rank_pattern": None},
    ],
    ids=str,
)
def test_a_value_or_a_pattern_that_is_none_raises(library: Library, further: dict[str, Any]) -> None:
    answer = library.call("in_model.adapt", lora={"r": 2, "target_modules": ["q_proj"], **further})
    assert (answer.stage, answer.raised != "") == ("trainer", True)
