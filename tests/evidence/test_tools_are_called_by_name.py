"""TOL004: how TRL calls a tool, and which of two with one name."""

import pytest
from library import Library
from tool_sources import ADD

pytestmark = pytest.mark.stack

OTHERS = '''
def one(a: int, /) -> int:
    """One.

    Args:
        a: the number
    """
    return a


def several(*numbers: int) -> int:
    """Several.

    Args:
        numbers: the numbers
    """
    return sum(numbers)


def options(**words: str) -> str:
    """Options.

    Args:
        words: the words
    """
    return " ".join(words)
'''


def _told(library: Library, source: str, names: list[str], **call: object) -> str:
    """What the model is told of a call."""
    answer = library.call("in_tools.called", tools=source, names=names, call=call)
    assert answer.raised == "", answer.text
    return str(answer.result[1]["content"])


def test_a_tool_is_called_with_keywords(library: Library) -> None:
    assert _told(library, ADD, ["add"], name="add", arguments={"a": 1, "b": 2}) == "3"


@pytest.mark.parametrize(
    ("name", "argument", "value", "said"),
    [
        pytest.param("one", "a", 1, "positional-only", id="by-position"),
        pytest.param("several", "numbers", [1, 2], "unexpected keyword argument 'numbers'", id="of-any-number"),
        pytest.param("options", "words", {"fast": "yes"}, "words", id="one-dictionary"),
    ],
)
def test_what_keywords_do_not_reach_is_told_to_the_model(
    library: Library, name: str, argument: str, value: object, said: str
) -> None:
    told = _told(library, OTHERS, [name], name=name, arguments={argument: value})
    assert said in told
    assert "error" in told or told == "words", "the dictionary arrives under its own name, not as keywords"


def test_of_two_with_one_name_the_last_is_called(library: Library) -> None:
    both = ADD + ADD.replace("def add(", "def other(").replace("a + b", "a * b") + "other.__name__ = 'add'\n"
    assert _told(library, both, ["add", "other"], name="add", arguments={"a": 3, "b": 3}) == "9"
    assert _told(library, both, ["other", "add"], name="add", arguments={"a": 3, "b": 3}) == "6"
