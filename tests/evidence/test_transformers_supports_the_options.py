"""GRP008: GRPOTrainer fails on a cache that transformers does not know, and on other options of its batching."""

from typing import Any

import pytest
from library import Library

from grpo_recipes.rules.transformers_supports_the_options import CACHES, FIELDS

pytestmark = pytest.mark.stack

BATCHING = "transformers_continuous_batching_config"


@pytest.mark.parametrize(("word", "raised"), [("static", ""), ("dinamic", "ValueError")])
def test_a_word_that_transformers_does_not_know_is_refused(library: Library, word: str, raised: str) -> None:
    answer = library.call("build", arguments={"cache_implementation": word})
    assert (answer.stage, answer.raised) == ("trainer", raised)
    if raised:
        told = {word.strip("' ") for word in answer.text.partition("(")[2].partition("(")[2].rstrip(")").split(",")}
        assert told - {""} <= set(CACHES)


@pytest.mark.parametrize(
    ("options", "raised"),
    [({"max_memory_percent": 0.4}, ""), ({"max_memory_percnt": 0.4}, "TypeError"), ("fast", "ValueError")],
)
def test_an_option_that_the_batching_lacks_is_refused(library: Library, options: Any, raised: str) -> None:
    answer = library.call("build", arguments={"use_transformers_continuous_batching": True, BATCHING: options})
    assert (answer.stage, answer.raised) == ("trainer", raised)


def test_what_is_not_used_is_not_read(library: Library) -> None:
    assert library.call("build", arguments={BATCHING: {"max_memory": 0.4}}).raised == ""


def test_every_option_of_this_release_is_known(library: Library) -> None:
    assert set(library.call("in_trl.batching_options").result) <= set(FIELDS)
