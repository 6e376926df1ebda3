"""SHM023: what ZeRO-3 does with a sum that is made in place. The others are in tests/worker and tests/stacks."""

from pathlib import Path

import pytest
from deepspeed_answers import answers
from library import Library

pytestmark = pytest.mark.stack


def test_zero_3_drops_what_was_added_to_gathered_weights(library: Library, tmp_path: Path) -> None:
    found = answers({"merged": {"call": "merged_while_gathered", "arguments": {}}}, library, tmp_path)["merged"]
    assert (found["raised"], found["result"]) == ("", [True, False]), found
