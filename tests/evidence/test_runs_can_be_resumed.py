"""TRN005: what is left of a run in a checkpoint of the model alone."""

import pytest
from library import Library

pytestmark = pytest.mark.stack


@pytest.mark.parametrize(("save_only_model", "steps"), [(False, 2), (True, 1)])
def test_a_resumed_optimizer_goes_on_or_starts_afresh(library: Library, save_only_model: bool, steps: int) -> None:
    answer = library.call("in_training.steps_of_a_resumed_optimizer", save_only_model=save_only_model)
    assert answer.result == steps, answer
