"""DAT008: TRL refuses a training without a data set and without an environment."""

import pytest
from library import Library

pytestmark = pytest.mark.stack


def test_it_is_refused_when_the_trainer_is_built(library: Library) -> None:
    answer = library.call("in_tools.without_rows", max_steps=2)
    assert (answer.stage, answer.raised) == ("trainer", "ValueError")
    assert "`train_dataset` is required unless an `environment_factory` is provided" in answer.text
