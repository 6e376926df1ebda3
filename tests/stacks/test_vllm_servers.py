"""The vLLM server of a release: its options are those of the table, and it has the policy before it generates.

What TRL asks of a server is seen at its client. The shim is `first_weights` (SHM020).
"""

import pytest
from environments import STACKS
from laboratory import Laboratory

from grpo_recipes.facts.vllm_server import server_program

pytestmark = pytest.mark.stacks

WITH_SERVER = [stack for stack in STACKS if server_program({"trl": stack.partition("/")[0]}) is not None]
# What a run does not say: it is said elsewhere, or of a server that several machines share.
UNSAID = {"model", "revision", "host", "port", "data_parallel_size", "log_level", "vllm_model_impl"}


@pytest.mark.parametrize("stack", WITH_SERVER)
def test_the_options_of_its_own_server_are_those_of_the_table(stack: str, laboratory: Laboratory) -> None:
    program = server_program({"trl": stack.partition("/")[0]})
    outcome = laboratory.run(stack, "server_experiments.options")
    assert program is not None and outcome.told.raised == "", outcome.output[-4000:]
    if program.takes is not None:
        assert set(outcome.result) - UNSAID == program.takes


@pytest.mark.parametrize(
    ("stack", "shim", "first"),
    [
        ("0.16.1/4.49.0", False, ["generate"]),
        ("0.16.1/4.49.0", True, ["weights", "reset_prefix_cache", "generate"]),
        ("0.19.1/4.52.4", False, ["weights", "reset_prefix_cache", "generate"]),
    ],
    ids=["0.16 without the shim", "0.16 with it", "0.19"],
)
def test_the_server_has_the_weights_before_it_generates(
    stack: str, shim: bool, first: list[str], laboratory: Laboratory
) -> None:
    outcome = laboratory.run(stack, "server_experiments.calls", shim=shim)
    assert outcome.told.raised == "", outcome.output[-4000:]
    assert outcome.result[: len(first)] == first
