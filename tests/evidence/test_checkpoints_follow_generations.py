"""TRN008: the steps from which a run of TRL can be resumed to the weights of one that was not interrupted."""

import pytest
from library import Library

pytestmark = pytest.mark.stack
SHAPES = {
    "a generation for each step": (1, 1, 1, 3, [1, 2]),
    "two accumulation steps": (2, 4, 1, 5, [2, 4]),
    "two steps, twice": (1, 2, 2, 5, [4]),
    "a generation of half a step": (4, 2, 1, 3, [1, 2]),
    "neither divides the other": (2, 3, 1, 5, [3]),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_a_run_is_resumed_exactly_where_a_generation_ends_and_nowhere_else(library: Library, shape: str) -> None:
    accumulation, feeds, iterations, steps, exact = SHAPES[shape]
    answer = library.call(
        "in_training.steps_of_exact_resumes",
        accumulation=accumulation,
        feeds=feeds,
        iterations=iterations,
        steps=steps,
    )
    assert answer.result == exact, answer
    assert exact == [step for step in range(1, steps) if step * accumulation % (feeds * iterations) == 0]
