"""The laboratory gives each experiment a process of its own with the packages of its stack."""

import pytest
from environments import ENVIRONMENTS, QUICK, STACKS
from laboratory import Laboratory

pytestmark = pytest.mark.stacks
newest = pytest.mark.parametrize("stack", STACKS[-1:])


@pytest.mark.parametrize("stack", QUICK)
def test_an_experiment_has_the_release_of_its_stack(stack: str, laboratory: Laboratory) -> None:
    seen = laboratory.run(stack, "laboratory_experiments.ways").result
    assert seen["trl"] == stack.partition("/")[0]
    assert seen["file"].startswith(str(ENVIRONMENTS[stack].folder)) == bool(ENVIRONMENTS[stack].pins)
    assert seen["folder"] == seen["given"]


@newest
def test_an_experiment_finds_nothing_of_the_one_before(stack: str, laboratory: Laboratory) -> None:
    for mark in ("first", "second"):
        assert laboratory.run(stack, "laboratory_experiments.leave", mark=mark).result is False


@newest
def test_the_same_call_is_run_once(stack: str, laboratory: Laboratory) -> None:
    first = laboratory.run(stack, "laboratory_experiments.tell")
    assert laboratory.run(stack, "laboratory_experiments.tell") is first
    assert first.result == 1
    assert first.told.warnings == ["FutureWarning: told"]
    assert 0 < first.cpu_s < laboratory.cpu_s[stack]


@newest
def test_a_rank_that_raises_is_not_waited_for(stack: str, laboratory: Laboratory) -> None:
    outcome = laboratory.run(stack, "laboratory_experiments.wait_for_the_first", ranks=2)
    assert [rank.raised for rank in outcome.ranks] == ["ValueError", "Died"]
    assert outcome.told.text == "rank 0 of 2"


@newest
def test_a_process_that_dies_is_an_outcome_with_its_last_words(stack: str, laboratory: Laboratory) -> None:
    outcome = laboratory.run(stack, "laboratory_experiments.end")
    assert (outcome.told.raised, outcome.told.text) == ("Died", "status 5")
    assert "the last words" in outcome.output
    assert laboratory.run(stack, "laboratory_experiments.ways").told.raised == ""
