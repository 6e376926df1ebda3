"""transformers 4 does not read what transformers 5 saves: MDL010."""

import pytest
from laboratory import Laboratory

pytestmark = pytest.mark.stacks
STACKS = ["0.19.1/4.52.4", "0.26.2/4.57.6"]


@pytest.mark.parametrize("stack", STACKS)
def test_a_tokenizer_of_transformers_5_cannot_be_loaded(stack: str, laboratory: Laboratory) -> None:
    plain = {"tokenizer_class": "PreTrainedTokenizerFast", "extra_special_tokens": {}}
    assert laboratory.run(stack, "saved_experiments.loaded", tokenizer=plain).result == [5, 13, 6]
    for name in ("TokenizersBackend", "SentencePieceBackend", "PythonBackend", "MistralCommonBackend"):
        told = laboratory.run(stack, "saved_experiments.loaded", tokenizer={**plain, "tokenizer_class": name}).told
        assert (told.raised, name in told.text) == ("ValueError", True)
    for tokens in ([], ["<|im_start|>"]):
        changed = {**plain, "extra_special_tokens": tokens}
        assert laboratory.run(stack, "saved_experiments.loaded", tokenizer=changed).told.raised


@pytest.mark.parametrize("stack", STACKS)
def test_the_positions_of_transformers_5_are_lost(stack: str, laboratory: Laboratory) -> None:
    rope = {"rope_theta": 1e6, "rope_type": "default"}
    assert laboratory.run(stack, "saved_experiments.positions", rope=rope).result == 10000.0
