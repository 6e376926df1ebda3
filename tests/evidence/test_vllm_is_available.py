"""GEN001: use_vllm without vLLM raises when the trainer is built."""

from importlib.util import find_spec

import pytest
from library import Library

pytestmark = pytest.mark.stack


def test_without_vllm_the_trainer_raises_after_the_model_was_loaded(library: Library) -> None:
    if find_spec("vllm") is not None:
        pytest.skip("vllm is installed here")
    answer = library.call("build", arguments={"use_vllm": True})
    assert (answer.stage, answer.raised) == ("trainer", "ImportError")
    assert "vLLM is not available" in answer.text
