"""DAT007: how TRL trains without a data set, and in which order episodes come."""

import pytest
from library import Library

pytestmark = pytest.mark.stack

GAME = '''
class Game:
    def reset(self, **row):
        CALLS.append(row)
        return "1+1="

    def look(self) -> str:
        """Says what there is."""
        return "nothing"
'''
EMPTY = [{"role": "user", "content": ""}]


def test_without_a_number_of_steps_it_is_refused(library: Library) -> None:
    answer = library.call("in_tools.without_rows", environment=GAME)
    assert (answer.stage, answer.raised) == ("trainer", "ValueError")
    assert "`max_steps` must be set to a positive value" in answer.text


def test_trl_itself_gives_reset_the_empty_prompt_alone(library: Library) -> None:
    answer = library.call("in_tools.without_rows", environment=GAME, max_steps=2)
    assert answer.raised == "", answer.text
    assert answer.result and all(row == {"prompt": EMPTY} for row in answer.result)


def test_episodes_come_in_their_order_whatever_their_number(library: Library) -> None:
    orders = []
    for count in (8, 16):
        rows = [{"episode": number, "prompt": EMPTY} for number in range(count)]
        answer = library.call("in_tools.without_rows", environment=GAME, max_steps=2, rows=rows)
        assert answer.raised == "", answer.text
        orders.append(list(dict.fromkeys(row["episode"] for row in answer.result)))
    assert orders[0] == orders[1] == sorted(orders[0])
