"""GRP004: what numbers out of range do, which GRPOConfig takes."""

import math

import pytest
from library import Library

pytestmark = pytest.mark.stack


@pytest.mark.parametrize("name", ["sapo_temperature_pos", "sapo_temperature_neg"])
def test_a_temperature_of_zero_gives_no_number(library: Library, name: str) -> None:
    answer = library.call("train", arguments={"loss_type": "sapo", name: 0.0})
    assert answer.raised == ""
    assert math.isnan(answer.result["logs"][0]["grad_norm"])


def test_padding_to_a_multiple_of_zero_raises(library: Library) -> None:
    answer = library.call("train", arguments={"pad_to_multiple_of": 0})
    assert (answer.stage, answer.raised) == ("train", "ZeroDivisionError")


@pytest.mark.parametrize(("alpha", "nearer"), [(0.6, True), (1.0, True), (0.0, False), (2.5, False)])
def test_the_reference_comes_nearer_with_a_share_of_the_policy(library: Library, alpha: float, nearer: bool) -> None:
    before, after = library.call("in_trl.distance_to_reference", alpha=alpha).result
    assert (after < before) == nearer


def test_entropy_bounds_the_wrong_way_round_jump(library: Library) -> None:
    bounds = {"entropy_coef_min": 0.5, "entropy_coef_max": 0.1}
    coefficients = library.call("in_trl.entropy_coefficients", arguments=bounds, entropies=[0.0, 9.0, 0.0]).result
    assert coefficients == [0.005, 0.5, 0.1]
    usual = {"entropy_coef_min": 0.0, "entropy_coef_max": 0.1}
    assert library.call("in_trl.entropy_coefficients", arguments=usual, entropies=[0.0, 9.0]).result == [0.005, 0.0]


@pytest.mark.parametrize(("text", "raised"), [("8", ""), ("none", ""), ("auto", ""), ("info", "ValueError")])
def test_padding_is_read_from_a_text_that_is_a_number(library: Library, text: str, raised: str) -> None:
    answer = library.call("config", world_size=1, arguments={"pad_to_multiple_of": text}, read=[])
    assert (answer.stage, answer.raised) == ("config", raised)
