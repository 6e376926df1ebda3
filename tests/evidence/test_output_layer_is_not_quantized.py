"""QNT006: a list of modules to skip takes the place of the one with the output layer."""

import pytest
from library import Library

pytestmark = pytest.mark.stack


@pytest.mark.parametrize("skipped", [None, ["k_proj", "lm_head"]], ids=str)
def test_with_the_output_layer_kept_an_untrained_model_knows_nothing(
    library: Library, skipped: list[str] | None
) -> None:
    answer = library.call("in_model.train_skipping", skipped=skipped, tied=False)
    assert (answer.raised, answer.result["output"]) == ("", "Linear"), answer.text
    assert answer.result["entropy"] > 3.0


@pytest.mark.parametrize("skipped", [["k_proj"], []], ids=str)
def test_without_it_raw_integers_are_taken_for_weights_in_silence(library: Library, skipped: list[str]) -> None:
    answer = library.call("in_model.train_skipping", skipped=skipped, tied=False)
    assert (answer.raised, answer.result["output"]) == ("", "Linear8bitLt"), answer.text
    assert answer.result["entropy"] < 1.0
