"""The shims `completion_ends` (GEN002) and `declared_ends` (SHM008): all that TRL computes ends with a completion.

Eight completions are dictated to the real `generate`; each ends in another way. What TRL alone makes of a stop is in
raw_stop.py. tests/worker/test_shim_completion_ends.py has whole runs on the newest release.
"""

from typing import Any

import pytest
from ends_experiments import INSIDE, SPECIAL
from environments import STACKS
from laboratory import Laboratory
from raw_trl import END, PAD

pytestmark = pytest.mark.stacks

# Dictated tokens -> how many of them there are up to the stop, and up to a declared end. The prompt ends with 12+1.
WRITTEN = {
    "a text of two tokens, the first of which would complete one that began in the prompt": ("2b12cdef", 4, 8),
    "a text inside a token, which stays whole": (["x", INSIDE, *"yyyyyy"], 2, 3),
    "a text that the last token allowed completes": ("abcdef12", 8, 8),
    "no end: truncated": ("abcdefgh", 8, 8),
    "a special token": (["a", "b", SPECIAL, *"cdefg"], 3, 8),
    "an id": ("abzcdefg", 3, 3),
    "the tokenizer's end token": (["a", "b", END, *"cdefg"], 3, 3),
    "the second of several texts": ("1a2b789c", 7, 8),
}
COMPLETIONS = [list(tokens) for tokens, _, _ in WRITTEN.values()]
AT_STOPS = [count for _, count, _ in WRITTEN.values()]
AT_DECLARED = [count for _, _, count in WRITTEN.values()]
# The shim reaches the end token of the tokenizer, then that of the trainer, then one method that gets prompts, and one
# that gets tokens.
ENDING = ("0.14.0/4.48.3", "0.19.1/4.52.4", "0.23.1/4.57.6", "0.26.2/4.57.6", STACKS[-1])
STOPS = {"shim": "completion_ends", "stop": ["12", "789", SPECIAL], "stop_tokens": ["z"], "declared": [END]}
DECLARED = {"shim": "declared_ends", "stop": [], "stop_tokens": [], "declared": [END, "y", "z"]}
TRUNCATED = COMPLETIONS[3]


def train(laboratory: Laboratory, stack: str, ends: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """What became of the completions in one step."""
    plain = {"pad_is_end": False, "lora": False, "arguments": {}}
    outcome = laboratory.run(stack, "ends_experiments.train", completions=COMPLETIONS, **ends, **{**plain, **changes})
    assert outcome.told.raised == "", outcome.output[-4000:]
    result: dict[str, Any] = outcome.result
    return result


def check(found: dict[str, Any], counts: list[int], *, padding: str = PAD) -> None:
    """Masks, texts and lengths are those of completions with so many tokens each."""
    kept = [tokens[:count] for tokens, count in zip(COMPLETIONS, counts, strict=True)]
    times = len(found["trained"]) // len(kept)
    assert sorted(found["trained"]) == sorted(kept * times)
    assert (found["rest"], found["holes"]) == ([padding], 0)
    told = ["".join(token for token in tokens if token not in (SPECIAL, END)) for tokens in kept]
    assert found["texts"] == told * times
    assert found["handed"] in ([], counts)
    assert found["items"] in (None, sum(counts))
    logged = {name.removeprefix("completions/"): value for name, value in found["logged"].items()}
    assert logged.get("mean_length", logged.get("completion_length")) == sum(counts) / len(counts)


@pytest.mark.parametrize("stack", ENDING)
def test_a_completion_ends_with_the_token_that_completes_a_stop(stack: str, laboratory: Laboratory) -> None:
    found = train(laboratory, stack, STOPS)
    check(found, AT_STOPS)
    assert found["logged"].get("completions/clipped_ratio", 1 / 8) == 1 / 8
    terminated = (sum(AT_STOPS) - 8) / 7
    assert found["logged"].get("completions/mean_terminated_length", terminated) == pytest.approx(terminated)


@pytest.mark.parametrize("stack", ENDING)
def test_padding_that_is_the_end_token_is_not_taken_for_an_end(stack: str, laboratory: Laboratory) -> None:
    check(train(laboratory, stack, STOPS, pad_is_end=True, lora=True), AT_STOPS, padding=END)


@pytest.mark.parametrize("stack", ENDING[1:])  # trl 0.14 has no mask_truncated_completions
def test_a_stopped_completion_is_not_a_truncated_one(stack: str, laboratory: Laboratory) -> None:
    found = train(laboratory, stack, STOPS, arguments={"mask_truncated_completions": True})
    kept = [tokens[:count] for tokens, count in zip(COMPLETIONS, AT_STOPS, strict=True)]
    assert sorted(found["trained"]) == sorted([[], *(tokens for tokens in kept if tokens != TRUNCATED)])


@pytest.mark.parametrize("stack", ["0.14.0/4.48.3", "1.9.0/5.23.0"])
def test_a_completion_ends_at_every_token_that_the_model_declares(stack: str, laboratory: Laboratory) -> None:
    found = train(laboratory, stack, DECLARED)
    check(found, AT_DECLARED)
    assert found["logged"].get("completions/clipped_ratio", 5 / 8) == 5 / 8


def test_a_model_with_one_end_token_is_left_alone(laboratory: Laboratory) -> None:
    assert train(laboratory, STACKS[0], {**DECLARED, "declared": [END]})["said"] == ""
