"""QNT005: types that BitsAndBytesConfig refuses."""

from typing import Any

import pytest
from library import Library

pytestmark = pytest.mark.stack


@pytest.mark.parametrize(
    "further",
    [{"llm_int8_threshold": 5.5}, {"llm_int8_skip_modules": ["lm_head"]}, {"llm_int8_has_fp16_weight": True}],
    ids=str,
)
def test_right_types_are_taken(library: Library, further: dict[str, Any]) -> None:
    answer = library.call("bits_and_bytes", arguments={"load_in_8bit": True, **further})
    assert (answer.raised, answer.result) == ("", "llm_int8")


@pytest.mark.parametrize(
    "further",
    [
        {"llm_int8_threshold": 6},
        {"llm_int8_threshold": None},
        {"llm_int8_skip_modules": "lm_head"},
        {"llm_int8_has_fp16_weight": 1},
        {"llm_int8_enable_fp32_cpu_offload": "yes"},
    ],
    ids=str,
)
def test_other_types_raise(library: Library, further: dict[str, Any]) -> None:
    answer = library.call("bits_and_bytes", arguments={"load_in_8bit": True, **further})
    assert (answer.stage, answer.raised) == ("config", "TypeError")
