"""LRA013: what an adapter with copies leaves of the embedding and the output layer."""

from typing import Any

import pytest
from library import Library

pytestmark = pytest.mark.stack

BOTH = {"modules_to_save": ["embed_tokens", "lm_head"]}


@pytest.mark.parametrize(
    ("lora", "tied", "moved"),
    [
        ({"modules_to_save": ["embed_tokens"]}, True, (True, False, False)),
        ({"modules_to_save": ["lm_head"]}, True, (False, True, False)),
        (BOTH, True, (True, True, False)),
        (BOTH | {"ensure_weight_tying": True}, True, (True, True, True)),
        ({"modules_to_save": ["embed_tokens"], "ensure_weight_tying": True}, True, (True, True, True)),
        ({"trainable_token_indices": [3]}, True, (True, True, True)),
        ({"modules_to_save": ["embed_tokens"]}, False, (True, False, False)),
        (BOTH, False, (True, True, False)),
    ],
    ids=str,
)
def test_a_copy_of_one_end_leaves_the_other(
    library: Library, lora: dict[str, Any], tied: bool, moved: tuple[bool, bool, bool]
) -> None:
    found = library.call("in_model.ends_of_the_vocabulary", lora=lora, tied=tied).result
    assert (found["embedding"], found["output"], found["same"]) == moved
