"""GRP006: GRPOTrainer wants transformers 5.8 for continuous batches, and says so after loading."""

import pytest
from library import Library

pytestmark = pytest.mark.stack


@pytest.mark.parametrize(("transformers", "raised"), [("5.7.0", "ImportError"), ("5.8.0", "")])
def test_it_raises_below(library: Library, transformers: str, raised: str) -> None:
    answer = library.call("in_trl.with_transformers", release=transformers)
    assert (answer.stage, answer.raised) == ("trainer", raised)
    assert not raised or "requires transformers>=5.8.0" in answer.text
