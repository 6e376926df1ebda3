"""TOL015: what TRL makes of several environments, and of a row that names none of them."""

import pytest
from environment_sources import GAME
from library import Library

pytestmark = pytest.mark.stack
TALKS = [{"role": "user", "content": "1+1="}]
SEVERAL = f"""{GAME}

def several(size):
    return {{"first": lambda: Game(size), "second": lambda: Game(size)}}
"""


def _rows(*names: str | None) -> list[dict[str, object]]:
    return [{"prompt": TALKS, "answer": "2", "environment": name} for name in names]


def test_each_row_is_of_the_environment_that_it_names(library: Library) -> None:
    answer = library.call("in_tools.with_environment", environment=SEVERAL, rows=_rows(*["first", "second"] * 4))
    assert (answer.raised, answer.result["rewards"][-1]) == ("", "Game"), answer.text
    assert answer.result["logs"][0]["rewards/Game/mean"] == 3.0


@pytest.mark.parametrize("name", ["third", None])
def test_a_name_that_none_has_raises_at_its_batch(name: str | None, library: Library) -> None:
    answer = library.call("in_tools.with_environment", environment=SEVERAL, rows=_rows("first", *[name] * 7))
    assert (answer.raised, answer.stage) == ("ValueError", "train")
    assert "Expected one of: ['first', 'second']" in answer.text
