"""PRE004: TrainingArguments takes tf32 on an Ampere GPU or newer alone."""

import pytest
from library import Library

pytestmark = pytest.mark.stack


def test_tf32_is_taken_if_and_only_if_there_is_a_gpu_that_has_it(library: Library) -> None:
    capabilities = library.call("cuda_devices").result
    answer = library.call("build", arguments={"tf32": True})
    has_it = bool(capabilities) and capabilities[0] >= [8, 0]
    assert (answer.raised == "") == has_it
    assert has_it or (answer.stage, "--tf32 requires Ampere" in answer.text) == ("config", True)


def test_no_tf32_is_taken_everywhere(library: Library) -> None:
    assert library.call("build", arguments={"tf32": False}).raised == ""
