"""WLD002: a process whose rank has no GPU dies when it sets its device."""

import pytest
from library import Library

pytestmark = pytest.mark.stack


def test_a_rank_without_a_gpu_dies(library: Library) -> None:
    count = len(library.call("cuda_devices").result)
    answer = library.call("cuda_device", index=count)
    assert answer.raised != ""
    if count:
        assert "invalid device ordinal" in answer.text
