"""QNT007: the oldest bitsandbytes that transformers takes."""

import pytest
from library import Library

from grpo_recipes.rules.bitsandbytes_is_new_enough import APPLIES_TO

pytestmark = pytest.mark.stack


def test_it_is_the_one_that_transformers_asks_for_before_loading(library: Library) -> None:
    answer = library.call("in_model.oldest_bitsandbytes").result
    assert APPLIES_TO["bitsandbytes"] == f"<{answer['oldest']}" == f"<{answer['asked']}"
    assert "if not is_bitsandbytes_available():\n            raise ImportError" in answer["check"]
