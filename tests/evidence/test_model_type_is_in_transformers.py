"""MDL011: what transformers does with a model_type that it has no class for."""

import pytest
from library import Library

pytestmark = pytest.mark.stack


def test_an_unknown_type_raises(library: Library) -> None:
    folder = library.call("in_model._saved", folder="qwen9", model_type="qwen9").result
    answer = library.call("build", arguments={}, model=folder)
    assert (answer.stage, answer.raised) == ("trainer", "ValueError")
    assert "has model type `qwen9` but Transformers does not recognize this architecture" in answer.text


def test_a_reward_model_of_an_unknown_type_raises(library: Library) -> None:
    library.call("in_model._saved", folder="qwen9", model_type="qwen9")
    answer = library.call("in_trl.with_reward_model", model="./qwen9", revision=None)
    assert (answer.stage, answer.raised) == ("trainer", "ValueError")
    assert "does not recognize this architecture" in answer.text
