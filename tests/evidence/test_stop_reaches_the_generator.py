"""GEN002: TRL has no road for a stop to transformers generation, and takes a stopped completion for a truncated one."""

from typing import Any

import pytest
from library import Library

pytestmark = pytest.mark.stack

LENGTH = "def length(completions, **kwargs):\n    return [float(len(text)) for text in completions]"
# Completions that end with another token than eos, as vLLM returns them for a stop.
STOPPED = """
def rollout(prompts, trainer):
    ids = [trainer.processing_class(prompt)["input_ids"] for prompt in prompts]
    completions = [[4 + 15 * (place % 2), 5, 6] for place in range(len(prompts))]
    return {"prompt_ids": ids, "completion_ids": completions, "logprobs": None}
"""


def _first_step(library: Library, arguments: dict[str, Any], **parts: Any) -> dict[str, float]:
    answer = library.call("train", arguments=arguments, **parts)
    assert answer.raised == "", answer.text
    logs: dict[str, float] = answer.result["logs"][0]
    return logs


@pytest.mark.parametrize("kwargs", [{"stop": ["1"]}, {"stop_token_ids": list(range(3, 20))}])
def test_vllms_words_are_ignored_without_a_word(library: Library, kwargs: dict[str, Any]) -> None:
    told = _first_step(library, {"generation_kwargs": kwargs}, rewards=LENGTH)
    untold = _first_step(library, {}, rewards=LENGTH)
    assert told["completions/mean_length"] == untold["completions/mean_length"]
    assert told["grad_norm"] == untold["grad_norm"]


def test_transformers_own_word_raises_at_the_first_generation(library: Library) -> None:
    answer = library.call("train", arguments={"generation_kwargs": {"stop_strings": ["1"]}})
    assert (answer.stage, answer.raised) == ("train", "ValueError")
    assert "could not locate a tokenizer" in answer.text


def test_further_eos_ids_leave_padding_in_the_loss(library: Library) -> None:
    some = {"eos_token_id": [2, *range(3, 20)]}
    step = _first_step(library, {"generation_kwargs": some}, rewards=LENGTH)
    assert step["completions/mean_length"] > step["rewards/length/mean"]


def test_a_stopped_completion_is_trained_on(library: Library) -> None:
    assert _first_step(library, {}, rollout=STOPPED)["grad_norm"] > 0


def test_a_stopped_completion_is_dropped_as_truncated(library: Library) -> None:
    step = _first_step(library, {"mask_truncated_completions": True}, rollout=STOPPED)
    assert (step["completions/clipped_ratio"], step["grad_norm"]) == (1.0, 0.0)
