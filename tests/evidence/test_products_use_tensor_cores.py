"""PRE005: in what a model multiplies where a recipe says nothing, and what TRL alone says then."""

import pytest
from library import Library

pytestmark = pytest.mark.stack


@pytest.mark.parametrize(
    ("arguments", "dtype"), [({"bf16": False}, "torch.float32"), ({"bf16": True}, "torch.bfloat16")]
)
def test_a_layer_multiplies_float32_unless_it_is_cast(arguments: dict[str, bool], dtype: str, library: Library) -> None:
    seen = library.call("in_training.products", arguments=arguments).result
    assert seen["dtypes"] == [dtype]
    assert seen["tf32"] is False, "for which somebody has to allow it"


def test_trl_alone_takes_bf16() -> None:
    from trl import GRPOConfig

    assert GRPOConfig(use_cpu=True, report_to="none").bf16 is True
