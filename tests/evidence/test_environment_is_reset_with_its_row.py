"""TOL009: how TRL calls reset."""

import pytest
from environment_sources import GAME
from library import Answer, Library

pytestmark = pytest.mark.stack


def _with_reset(library: Library, signature: str, body: str = 'return " Go."') -> Answer:
    before = 'def reset(self, answer: str, **row: object) -> str:\n        return f" The board is {self.size} wide."'
    assert before in GAME
    source = GAME.replace(before, f"{signature}\n        {body}" if signature else "x = 1")
    return library.call("in_tools.with_environment", environment=source, config={"size": 3})


def test_it_is_called_with_every_column_and_the_prompt(library: Library) -> None:
    body = 'assert (answer, prompt[0]["content"]) == ("2", "1+1="), "other columns"'
    assert _with_reset(library, "def reset(self, answer, prompt):", body).raised == ""


def test_a_class_without_it_is_refused(library: Library) -> None:
    answer = _with_reset(library, "")
    assert (answer.stage, answer.raised) == ("trainer", "ValueError")
    assert "must define a callable `reset`" in answer.text


@pytest.mark.parametrize(
    ("signature", "says"),
    [
        pytest.param("def reset(self, answer):", "unexpected keyword argument 'prompt'", id="a-column-not-taken"),
        pytest.param(
            "def reset(self, level, **row):", "missing 1 required positional argument: 'level'", id="no-column"
        ),
        pytest.param("async def reset(self, **row):", "coroutine", id="asynchronous"),
    ],
)
def test_what_does_not_fit_the_row_ends_the_training(library: Library, signature: str, says: str) -> None:
    answer = _with_reset(library, signature)
    assert (answer.stage, answer.raised) == ("train", "TypeError")
    assert says in answer.text
