"""GEN004: groups that do not divide the world raise when the trainer is built."""

import pytest
from library import Library

pytestmark = pytest.mark.stack


def test_whole_groups_go_on_to_start_vllm(library: Library) -> None:
    answer = library.call("in_vllm.start_vllm", mode="colocate")
    assert (answer.raised, "'LLM' is not defined" in answer.text) == ("NameError", True)


def test_another_size_raises_after_the_model_was_loaded(library: Library) -> None:
    answer = library.call("in_vllm.start_vllm", mode="colocate", tensor_parallel_size=3)
    assert (answer.stage, answer.raised) == ("trainer", "ValueError")
    assert answer.text == "tensor_parallel_size (3) must divide world size (1) evenly."
