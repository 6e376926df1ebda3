"""RWD004: with remove_unused_columns a reward does not get its column."""

import pytest
from library import Library

pytestmark = pytest.mark.stack

SOURCE = "def reward(completions, solution, **kwargs):\n    return [float(len(text)) for text in completions]"
ROWS = [{"prompt": f"{n}+1=", "solution": "2"} for n in range(8)]


@pytest.mark.parametrize(("removes", "raised"), [(False, ""), (True, "TypeError")])
def test_a_column_reaches_the_reward_unless_it_is_removed(library: Library, removes: bool, raised: str) -> None:
    answer = library.call("train", arguments={"remove_unused_columns": removes}, rewards=SOURCE, rows=ROWS)
    assert answer.raised == raised
    assert not raised or "missing 1 required positional argument: 'solution'" in answer.text
