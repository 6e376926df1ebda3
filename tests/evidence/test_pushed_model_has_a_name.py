"""TRN006: what the trainer calls a model that it pushes."""

import pytest
from library import Library

pytestmark = pytest.mark.stack


def test_the_name_is_that_of_the_output_folder_unless_another_is_given(library: Library) -> None:
    folder = {"output_dir": "runs/of-monday/checkpoints"}
    assert library.call("in_training.repository_name", arguments=folder).result == "checkpoints"
    named = {**folder, "hub_model_id": "owner/model"}
    assert library.call("in_training.repository_name", arguments=named).result == "owner/model"
