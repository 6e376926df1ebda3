"""GEN007: with transformers the pattern changes nothing."""

import pytest
from library import Library

pytestmark = pytest.mark.stack

AS = (
    "def letters(completions, **kwargs):\n    return [float(text.count('a')) + 0.1 * len(text) for text in completions]"
)


def test_transformers_generates_whatever_it_likes(library: Library) -> None:
    told = {"vllm_structured_outputs_regex": "a+", "seed": 1}
    with_pattern, without = (
        library.call("train", arguments=arguments, rewards=AS) for arguments in (told, {"seed": 1})
    )
    assert with_pattern.raised == without.raised == ""
    assert with_pattern.warnings == without.warnings
    first, other = with_pattern.result["logs"][0], without.result["logs"][0]
    assert first["grad_norm"] == other["grad_norm"] > 0
    assert first["rewards/letters/mean"] == other["rewards/letters/mean"] < 8.8, "eight times a would be 8.8"
