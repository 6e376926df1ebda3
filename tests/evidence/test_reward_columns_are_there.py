"""RWD002: a reward whose column is not in the rows raises after the first generation."""

import pytest
from library import Library

pytestmark = pytest.mark.stack

SOURCE = "def reward(completions, solution, **kwargs):\n    return [float(len(text)) for text in completions]"


def test_with_the_column_it_trains(library: Library) -> None:
    rows = [{"prompt": f"{n}+1=", "solution": "2"} for n in range(8)]
    assert library.call("train", arguments={}, rewards=SOURCE, rows=rows).raised == ""


def test_without_the_column_it_raises(library: Library) -> None:
    answer = library.call("train", arguments={}, rewards=SOURCE)
    assert (answer.stage, answer.raised) == ("train", "TypeError")
    assert "missing 1 required positional argument: 'solution'" in answer.text
