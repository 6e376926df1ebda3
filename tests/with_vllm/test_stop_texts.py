"""vLLM's own search for stop strings and the worker's agree, for each way in which tokenizers write spaces and bytes.

The worker cuts what vLLM gives at the token that completes a stop string. That is the same token on every backend as
long as vLLM does not stop before it; it may stop a token later, where it waits for the rest of a character.
"""

import random
from typing import Any

import pytest

pytestmark = pytest.mark.vllm

END, SPECIAL = "</s>", "<|tool|>"
MARKED = (END, SPECIAL, "▁", "▁stop", "stop", "s", "top", "x", "▁x", "<0xC3>", "<0xA9>", "x<0xC3>")
BYTES = (END, SPECIAL, "Ġ", "Ġstop", "stop", "s", "top", "x", "Ġx", "Ã", "©", "xÃ")
PARTS_OF_CHARACTERS = 9  # and all words behind it
STOPS = ("stop", " stop", "x stop", "é", "xé", "sto", "  ", SPECIAL, f"{SPECIAL}x", "xx")
ROUNDS, LENGTH = 400, 8


def _tokenizer(family: str) -> Any:
    from tokenizers import AddedToken, Tokenizer, decoders, models
    from transformers import PreTrainedTokenizerFast

    words = BYTES if family == "byte-level" else MARKED
    tokens = Tokenizer(models.BPE(vocab={word: place for place, word in enumerate(words)}, merges=[]))
    tokens.decoder = {
        "byte-level": decoders.ByteLevel(),
        "metaspace": decoders.Metaspace(),
        "llama": decoders.Sequence(
            [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        ),
    }[family]
    tokens.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in words[:2]])
    return PreTrainedTokenizerFast(tokenizer_object=tokens, eos_token=END, pad_token=END)


def _stopped_by_vllm(tokenizer: Any, prompt: list[int], ids: list[int], stop: str) -> int | None:
    """After how many tokens vLLM sees the stop, None if it does not."""
    from vllm import SamplingParams
    from vllm.v1.engine import EngineCoreRequest
    from vllm.v1.engine.detokenizer import FastIncrementalDetokenizer

    sampling = SamplingParams(stop=[stop], include_stop_str_in_output=True, skip_special_tokens=False)
    request = EngineCoreRequest(
        request_id="one",
        prompt_token_ids=prompt,
        mm_features=None,
        sampling_params=sampling,
        pooling_params=None,
        arrival_time=0.0,
        lora_request=None,
        cache_salt=None,
        data_parallel_rank=None,
    )
    detokenizer = FastIncrementalDetokenizer(tokenizer, request)
    stops = (place + 1 for place, token in enumerate(ids) if detokenizer.update([token], False) is not None)
    return next(stops, None)


@pytest.mark.parametrize("family", ["byte-level", "metaspace", "llama"])
def test_vllm_never_stops_before_the_token_that_completes_a_stop(family: str) -> None:
    from grpo_recipes.worker.ends.ends import Ends

    tokenizer, draws = _tokenizer(family), random.Random(0)
    later = found = 0
    for _ in range(ROUNDS):
        # A prompt is a text, so it does not end inside a character.
        prompt = [draws.randrange(1, PARTS_OF_CHARACTERS) for _ in range(3)]
        ids = [draws.randrange(1, len(BYTES)) for _ in range(LENGTH)]
        stop = draws.choice(STOPS)
        ours = Ends((0,), (stop,), tokenizer).first(ids)
        theirs = _stopped_by_vllm(tokenizer, prompt, ids, stop)
        told = (tokenizer.convert_ids_to_tokens(prompt), tokenizer.convert_ids_to_tokens(ids), stop, ours, theirs)
        assert theirs is None or (ours is not None and ours <= theirs), told
        found += ours is not None
        later += ours != theirs
    assert found > ROUNDS / 4
    assert later < found / 10
