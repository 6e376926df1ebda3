"""FCT003 for generation_kwargs: which keys transformers has, and that it says nothing about those that it has not."""

import pytest
from library import Library

from grpo_recipes.facts.shipped import table

pytestmark = pytest.mark.stack

LENGTH = "def length(completions, **kwargs):\n    return [float(len(text)) for text in completions]"


def test_the_keys_are_those_of_the_live_class(library: Library) -> None:
    live = library.call("in_vllm.generation_config_keys").result
    assert [key for key in live if not key.startswith("_")] == table("generation_keys")["keys"]


def test_a_misspelt_key_changes_nothing_and_nothing_says_so(library: Library) -> None:
    steps = []
    for kwargs in ({}, {"max_new_tokenz": 2}, {"max_new_tokens": 2}):
        arguments = {"generation_kwargs": kwargs, "seed": 1}
        answer = library.call("train", arguments=arguments, rewards=LENGTH)
        assert answer.raised == "", answer.text
        assert not [told for told in answer.warnings if "max_new_token" in told]
        steps.append(answer.result["logs"][0]["completions/mean_length"])
    assert steps[0] == steps[1] > steps[2] == 2
