"""LOS008: a router loss for a dense model raises after loading; the listed families have no router."""

import pytest
from library import Library

from grpo_recipes.rules.router_loss_is_of_experts import DENSE

pytestmark = pytest.mark.stack


@pytest.mark.parametrize(("coefficient", "raised"), [(0.01, "ValueError"), (0.0, "")])
def test_a_dense_model_has_no_router_loss(library: Library, coefficient: float, raised: str) -> None:
    answer = library.call("build", arguments={"router_aux_loss_coef": coefficient})
    assert (answer.stage, answer.raised) == ("trainer", raised)


def test_the_dense_families_have_no_router(library: Library) -> None:
    answer = library.call("in_trl.have_routers", families=[*DENSE, "qwen3_moe"])
    assert answer.result == ["qwen3_moe"]
