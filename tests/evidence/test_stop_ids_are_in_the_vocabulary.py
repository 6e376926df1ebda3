"""GEN015: an id beyond the vocabulary is never generated, and ends nothing."""

import pytest
from library import Library

pytestmark = pytest.mark.stack


def test_an_id_beyond_the_vocabulary_ends_no_completion(library: Library) -> None:
    assert library.call("in_generation.generated_until", ids=[32, 151645], length=200).result == 200


def test_ids_of_the_vocabulary_end_it(library: Library) -> None:
    assert library.call("in_generation.generated_until", ids=[*range(32)], length=200).result == 1
