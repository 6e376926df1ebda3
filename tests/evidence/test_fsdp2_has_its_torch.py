"""FSD001: from which torch on accelerate makes its plugin for FSDP2."""

import pytest
from library import Library

pytestmark = pytest.mark.stack


@pytest.mark.parametrize(("release", "raised"), [("2.5.1", "ImportError"), ("2.6.0", ""), ("2.13.0", "")])
def test_the_plugin_wants_torch_2_6(library: Library, release: str, raised: str) -> None:
    answer = library.call("in_training.fsdp_plugin", torch_release=release)
    assert answer.raised == raised, answer.text
