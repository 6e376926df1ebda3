"""SHM019: an older DeepSpeed on the CPU hands out parameters that are not there yet; zero3_gathers waits for them."""

import pytest
from environments import ENVIRONMENTS
from laboratory import Laboratory

pytestmark = pytest.mark.stacks

OLDER = [name for name, each in ENVIRONMENTS.items() if each.pins.get("deepspeed", "").startswith("0.16.")]


@pytest.mark.parametrize("stack", OLDER[:1])
def test_without_the_shim_a_parameter_is_read_before_it_is_there(stack: str, laboratory: Laboratory) -> None:
    outcome = laboratory.run(stack, "gathers.wrong_values", ranks=2, shim=False)
    assert sum(rank.result for rank in outcome.ranks) > 0


@pytest.mark.parametrize("stack", OLDER[:1])
def test_with_the_shim_every_parameter_is_there(stack: str, laboratory: Laboratory) -> None:
    outcome = laboratory.run(stack, "gathers.wrong_values", ranks=2, shim=True)
    assert [rank.result for rank in outcome.ranks] == [0, 0], outcome.output[-3000:]
