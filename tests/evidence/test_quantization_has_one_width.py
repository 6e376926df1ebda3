"""QNT002: two widths raise, no width quantizes nothing."""

import pytest
from library import Library

pytestmark = pytest.mark.stack


def test_one_width_is_taken(library: Library) -> None:
    assert library.call("bits_and_bytes", arguments={"load_in_8bit": True}).result == "llm_int8"


def test_two_widths_raise_when_built(library: Library) -> None:
    answer = library.call("bits_and_bytes", arguments={"load_in_4bit": True, "load_in_8bit": True})
    assert (answer.raised, "only one can be used" in answer.text) == ("ValueError", True)


def test_no_width_quantizes_nothing_without_a_word(library: Library) -> None:
    answer = library.call("bits_and_bytes", arguments={"bnb_4bit_quant_type": "nf4"})
    assert (answer.raised, answer.result, answer.warnings) == ("", "None", [])
