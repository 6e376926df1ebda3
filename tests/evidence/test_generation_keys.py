"""GEN010, and FCT003 for generation_kwargs: which keys transformers has, and that it says nothing about others.

GEN011: its name for the shortest completion.
"""

import pytest
from library import Library

from grpo_recipes.facts.released.shipped import table

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


def test_the_shortest_completion_is_kept_by_transformers(library: Library) -> None:
    lengths = []
    for kwargs in ({}, {"min_new_tokens": 60}):
        arguments = {"generation_kwargs": kwargs, "seed": 1, "max_completion_length": 64}
        answer = library.call("train", arguments=arguments, rewards=LENGTH)
        assert answer.raised == "", answer.text
        lengths.append(answer.result["logs"][0]["completions/min_length"])
    assert lengths[0] < 60 <= lengths[1]


@pytest.mark.parametrize("key", ["num_beams", "return_dict_in_generate", "penalty_alpha", "max_length"])
def test_a_key_that_no_run_can_have_is_one_of_transformers(library: Library, key: str) -> None:
    assert key in library.call("in_vllm.generation_config_keys").result


def test_what_generate_returns_is_not_to_be_changed(library: Library) -> None:
    arguments = {"generation_kwargs": {"return_dict_in_generate": True}}
    assert library.call("train", arguments=arguments, rewards=LENGTH).raised
