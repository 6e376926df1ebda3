"""DAT002: with fewer rows than a generation has prompts, TRL trains nothing."""

import pytest
from library import Library

pytestmark = pytest.mark.stack

ROWS = [{"prompt": f"{n}+1="} for n in range(3)]


def test_with_max_steps_it_ends_after_no_step_and_without_a_word(library: Library) -> None:
    answer = library.call("train", arguments={"max_steps": 2, "per_device_train_batch_size": 16}, rows=ROWS)
    assert (answer.raised, answer.result["moved"]) == ("", 0)
    assert [line.get("step") for line in answer.result["logs"]] == [0]


def test_with_epochs_it_raises_after_loading(library: Library) -> None:
    arguments = {"max_steps": -1, "num_train_epochs": 1, "per_device_train_batch_size": 16}
    answer = library.call("train", arguments=arguments, rows=ROWS)
    assert (answer.stage, answer.raised) == ("train", "ValueError")


def test_with_as_many_rows_it_trains(library: Library) -> None:
    rows = [*ROWS, {"prompt": "3+1="}]
    answer = library.call("train", arguments={"per_device_train_batch_size": 16}, rows=rows)
    assert answer.result["moved"] > 0
