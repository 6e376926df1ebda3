"""GRP007: GRPOTrainer refuses Liger's fused cross entropy after loading."""

import pytest
from library import Library

pytestmark = pytest.mark.stack


@pytest.mark.parametrize(("fused", "raised"), [(False, ""), (True, "ValueError")])
def test_the_fused_cross_entropy_is_refused(library: Library, fused: bool, raised: str) -> None:
    arguments = {"use_liger_kernel": True, "liger_kernel_config": {"fused_linear_cross_entropy": fused}}
    answer = library.call("build", arguments=arguments)
    assert (answer.stage, answer.raised) == ("trainer", raised)
