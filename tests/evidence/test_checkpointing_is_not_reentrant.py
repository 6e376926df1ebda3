"""LRA001: what torch's checkpoint does with the arguments that GRPOConfig hands it."""

from typing import Any

import pytest
from library import Answer, Library, environment_of_ranks

pytestmark = pytest.mark.stack


def _train(library: Library, **arguments: Any) -> Answer:
    lora = {"r": 4, "target_modules": "all-linear"}
    return library.call("train", arguments={"gradient_checkpointing_kwargs": arguments}, lora=lora)


def test_not_reentrant_the_adapter_gets_its_gradient(library: Library) -> None:
    answer = _train(library, use_reentrant=False)
    assert answer.raised == ""
    assert answer.result["logs"][0]["grad_norm"] > 0
    assert not any("use_reentrant" in warning for warning in answer.warnings)


@pytest.mark.parametrize("name", ["preserve_rng_state", "debug", "early_stop"])
def test_the_arguments_that_the_rule_knows_are_torchs(library: Library, name: str) -> None:
    assert _train(library, use_reentrant=False, **{name: True}).raised == ""


def test_an_unknown_argument_raises_at_the_first_forward_pass(library: Library) -> None:
    for arguments in ({"reentrant": False}, {"use_reentrant": True, "offload": True}):
        answer = _train(library, **arguments)
        assert (answer.stage, answer.raised) == ("train", "ValueError")
        assert "Unexpected keyword arguments" in answer.text


def test_an_unknown_argument_does_nothing_where_it_does_not_raise(library: Library) -> None:
    told, untold = _train(library, use_reentrant=False, offload=True), _train(library, use_reentrant=False)
    assert told.raised == ""
    assert told.result["logs"][0]["grad_norm"] == untold.result["logs"][0]["grad_norm"]


def test_a_map_without_use_reentrant_is_warned_of(library: Library) -> None:
    answer = _train(library, preserve_rng_state=True)
    assert any("use_reentrant parameter should be passed explicitly" in warning for warning in answer.warnings)


def test_debug_with_reentrant_raises_at_the_first_forward_pass(library: Library) -> None:
    answer = _train(library, use_reentrant=True, debug=True)
    assert (answer.stage, answer.raised) == ("train", "ValueError")
    assert "only supported when use_reentrant=False" in answer.text


@pytest.mark.parametrize(("reentrant", "unused"), [(True, False), (False, True), (True, True)])
def test_reentrant_blocks_hold_unused_parameters_for_ddp(library: Library, reentrant: bool, unused: bool) -> None:
    answer = library.call(
        "in_two_processes.checkpointed_step",
        environment=environment_of_ranks(),
        ranks=2,
        reentrant=reentrant,
        unused=unused,
    )
    failed = ["mark a variable ready only once" in text for text in answer.result]
    assert failed == [reentrant and unused] * 2, answer
    assert all(failed) or answer.result == ["", ""]
