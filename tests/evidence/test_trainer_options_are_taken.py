"""TRN004: what the trainer, accelerate and torch's data loader raise for their options."""

from typing import Any

import pytest
from library import Library

pytestmark = pytest.mark.stack


@pytest.mark.parametrize(
    ("arguments", "raised", "stage"),
    [
        ({"torch_empty_cache_steps": 0}, "ValueError", "config"),
        ({"dataloader_prefetch_factor": 2}, "ValueError", "config"),
        ({"debug": "overflow"}, "ValueError", "config"),
        ({"log_level": "loud"}, "KeyError", "trainer"),
        ({"torch_compile_backend": "indutor"}, "ValueError", "trainer"),
        ({"dataloader_persistent_workers": True}, "ValueError", "train"),
        ({"dataloader_multiprocessing_context": "fork"}, "ValueError", "train"),
        ({"dataloader_num_workers": 1, "dataloader_multiprocessing_context": "spoon"}, "ValueError", "train"),
        ({"dataloader_num_workers": -1}, "ValueError", "train"),
        ({"dataloader_num_workers": 1, "dataloader_prefetch_factor": 0}, "AssertionError", "train"),
        ({"log_level": "warning", "debug": "underflow_overflow", "dataloader_num_workers": 1}, "", "train"),
        ({"dataloader_num_workers": 1, "dataloader_persistent_workers": True}, "", "train"),
    ],
    ids=str,
)
def test_an_option_raises_where_the_rule_says(
    library: Library, arguments: dict[str, Any], raised: str, stage: str
) -> None:
    answer = library.call("train", arguments=arguments)
    assert (answer.raised, answer.stage) == (raised, stage), answer.text
