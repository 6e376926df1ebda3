"""TOL014: what the model is told of a tool that yields."""

import pytest
from library import Library
from tool_sources import ADD

pytestmark = pytest.mark.stack


@pytest.mark.parametrize(
    ("source", "said"),
    [
        pytest.param(ADD, "3", id="returned"),
        pytest.param(ADD.replace("return", "yield"), "<generator object add at 0x", id="yielded"),
        pytest.param(ADD.replace("def", "async def").replace("return", "yield"), "<async_generator object", id="async"),
    ],
)
def test_the_model_is_told_the_text_of_what_a_call_returns(library: Library, source: str, said: str) -> None:
    call = {"name": "add", "arguments": {"a": 1, "b": 2}}
    answer = library.call("in_tools.called", tools=source, names=["add"], call=call)
    assert answer.raised == "", answer.text
    assert str(answer.result[1]["content"]).startswith(said)
