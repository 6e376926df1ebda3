"""MDL001: transformers takes a folder that is not there for a hub id."""

from pathlib import Path

import pytest
from library import Library

pytestmark = pytest.mark.stack


@pytest.mark.parametrize("model", ["/nowhere/model", "./nowhere", "models/qwen2/final", "owner/"])
def test_the_error_speaks_of_the_hub(library: Library, model: str) -> None:
    answer = library.call("build", arguments={}, model=model)
    assert (answer.stage, answer.raised) == ("trainer", "OSError")
    assert "Repo id must" in answer.text


def test_a_folder_without_a_config_raises(library: Library, tmp_path: Path) -> None:
    answer = library.call("build", arguments={}, model=str(tmp_path))
    assert (answer.stage, answer.raised) in {("trainer", "ValueError"), ("trainer", "OSError")}
