"""LRA009: which adapters train the embedding."""

from typing import Any

import pytest
from library import Library

pytestmark = pytest.mark.stack


@pytest.mark.parametrize(
    ("further", "trained"),
    [
        ({"target_modules": "all-linear"}, []),
        ({"modules_to_save": ["embed_tokens"]}, ["model.embed_tokens.modules_to_save.default.weight"]),
        ({"trainable_token_indices": [3]}, ["model.embed_tokens.token_adapter.trainable_tokens_delta.default"]),
    ],
)
def test_an_adapter_trains_no_embedding_that_it_does_not_name(
    library: Library, further: dict[str, Any], trained: list[str]
) -> None:
    answer = library.call("in_model.adapt", lora={"r": 2, "target_modules": ["q_proj"], **further})
    assert answer.result["trained"] == trained
    assert [name for name in answer.result["adapted"] if "embed" in name] == []
