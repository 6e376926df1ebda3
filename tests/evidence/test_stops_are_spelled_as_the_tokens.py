"""GEN014: a stop with a slip never ends a completion, however often the token is said."""

import pytest
from library import Library

pytestmark = pytest.mark.stack
TOKEN = "</search>"


@pytest.mark.parametrize("stop", [TOKEN, "</searc"])
def test_a_text_of_the_token_ends_a_completion(library: Library, stop: str) -> None:
    assert library.call("in_generation.ended_by", stop=stop, token=TOKEN).result is True


@pytest.mark.parametrize("stop", ["</serach>", "</serch>", "</searrch>", "</sesrch>", "</Search>"])
def test_a_slip_ends_none(library: Library, stop: str) -> None:
    assert library.call("in_generation.ended_by", stop=stop, token=TOKEN).result is False
