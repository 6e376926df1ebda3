"""What the shipped tables say of old releases is what those releases are known for."""

import pytest
from folding import fold

from grpo_recipes.facts.facts import facts_for
from grpo_recipes.facts.released.folded import nearest_release, value_at
from grpo_recipes.facts.released.shipped import facts_of_release, releases_with_facts
from grpo_recipes.facts.source.package_facts import LogitsKeyword
from grpo_recipes.stack.stack import Stack

ABSENT = "absent"


def default_in(trl: str, name: str) -> object:
    """The default of a GRPOConfig field in a release of trl, ABSENT when it has no such field of its own."""
    facts = facts_of_release("trl", trl)
    assert facts is not None
    field = facts.owners["GRPOConfig"].fields.get(name)
    return ABSENT if field is None else field.default


@pytest.mark.parametrize(
    ("name", "defaults"),
    [
        ("num_generations", {"0.14.0": 8, "1.16.0": 8}),
        ("beta", {"0.14.0": 0.04, "0.18.2": 0.04, "0.19.0": 0.0}),
        ("loss_type", {"0.16.1": ABSENT, "0.17.0": "bnpo", "0.21.0": "bnpo", "0.22.0": "dapo"}),
        ("temperature", {"0.14.0": 0.9, "0.17.0": 0.9, "0.18.0": 1.0}),
        ("top_k", {"0.15.2": ABSENT, "0.16.0": 50, "0.18.0": None, "0.26.2": None, "0.27.0": 0}),
        ("max_prompt_length", {"0.14.0": 512, "0.26.0": None, "0.27.2": None, "0.28.0": ABSENT}),
        ("steps_per_generation", {"0.17.0": ABSENT, "0.18.0": None}),
        ("generation_kwargs", {"0.18.2": ABSENT, "0.19.0": None}),
        ("vllm_mode", {"0.17.0": ABSENT, "0.18.0": "server", "0.29.1": "server", "1.0.0": "colocate"}),
        ("per_device_train_batch_size", {"0.14.0": 1, "0.15.0": ABSENT}),
        ("scale_rewards", {"0.15.2": ABSENT, "0.16.0": True, "0.21.0": True, "0.22.0": "group"}),
        ("gradient_checkpointing", {"0.21.0": ABSENT, "0.22.0": True}),
        ("max_completion_length", {"0.14.0": 256, "1.9.2": 256, "1.10.0": 512}),
        ("use_bias_correction_kl", {"0.25.1": ABSENT, "0.26.0": False, "1.9.2": False, "1.10.0": True}),
        ("ref_model_sync_steps", {"0.14.0": ABSENT, "0.15.0": 64, "0.16.0": 512}),
        ("use_liger_loss", {"0.16.1": ABSENT, "0.17.0": False, "0.28.0": ABSENT}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_defaults_of_grpo_config_moved_where_they_are_known_to(name: str, defaults: dict[str, object]) -> None:
    assert {trl: default_in(trl, name) for trl in defaults} == defaults


def test_the_words_of_loss_type_are_those_that_the_release_computes() -> None:
    words = {}
    for trl in ("0.17.0", "0.22.0", "0.26.0", "0.28.0"):
        facts = facts_of_release("trl", trl)
        assert facts is not None
        words[trl] = set(facts.owners["GRPOConfig"].fields["loss_type"].allowed or ())
    assert words["0.17.0"] == {"grpo", "bnpo", "dr_grpo"}
    assert words["0.22.0"] - words["0.17.0"] == {"dapo"}
    assert words["0.26.0"] - words["0.22.0"] == {"cispo", "sapo"}
    assert words["0.28.0"] - words["0.26.0"] == {"luspo"}


def test_parameters_keep_the_order_of_their_release() -> None:
    parameters = {}
    for trl in ("1.7.1", "1.8.0"):
        facts = facts_of_release("trl", trl)
        assert facts is not None
        parameters[trl] = list(facts.owners["GRPOTrainer"].fields)
    at = parameters["1.8.0"].index("peft_config")
    assert parameters["1.8.0"][at - 1 : at + 1] == ["quantization_config", "peft_config"]
    assert parameters["1.7.1"] == [name for name in parameters["1.8.0"] if name != "quantization_config"]


@pytest.mark.parametrize(
    ("trl", "has", "lacks"),
    [("0.16.0", "guided_decoding_regex", "generation_kwargs"), ("0.19.0", "generation_kwargs", "images")],
)
def test_the_client_of_a_server_takes_what_its_release_sends(trl: str, has: str, lacks: str) -> None:
    facts = facts_of_release("trl", trl)
    assert facts is not None
    fields = facts.owners["VLLMClient"].fields
    assert has in fields
    assert lacks not in fields


def test_before_the_server_there_was_no_client() -> None:
    facts = facts_of_release("trl", "0.15.2")
    assert facts is not None
    assert "VLLMClient" not in facts.owners


OLD = LogitsKeyword("num_logits_to_keep", False, True)
BOTH = LogitsKeyword("logits_to_keep", True, True)
NEW = LogitsKeyword("logits_to_keep", False, True)
NONE, SWALLOWED = LogitsKeyword(None, False, False), LogitsKeyword(None, False, True)


@pytest.mark.parametrize(
    ("model_class", "transformers", "expected"),
    [
        ("Qwen2ForCausalLM", "5.23.0", NEW),
        ("Qwen2ForCausalLM", "4.48.3", OLD),
        ("Qwen2ForCausalLM", "4.49.0", BOTH),
        ("Qwen2ForCausalLM", "4.51.3", BOTH),
        ("Qwen2ForCausalLM", "4.52.4", NEW),
        ("MistralForCausalLM", "4.47.1", LogitsKeyword("num_logits_to_keep", False, False)),
        ("GPT2LMHeadModel", "4.48.0", NONE),
        ("GPT2LMHeadModel", "4.48.3", SWALLOWED),
        ("GPT2LMHeadModel", "4.52.4", SWALLOWED),
        ("GPT2LMHeadModel", "4.53.0", NEW),
        ("GPTNeoXForCausalLM", "4.49.0", NEW),
        ("OPTForCausalLM", "4.57.6", SWALLOWED),
        ("OPTForCausalLM", "5.0.0", NEW),
        ("Qwen2VLForConditionalGeneration", "4.52.4", NONE),
        ("Qwen2_5_VLForConditionalGeneration", "4.54.0", NEW),
        ("Qwen3ForCausalLM", "4.50.3", None),
        ("RemoteForCausalLM", "4.57.6", None),
        ("Qwen2ForCausalLM", "4.45.2", None),
    ],
)
def test_a_model_class_takes_the_keyword_of_its_release(
    model_class: str, transformers: str, expected: LogitsKeyword | None
) -> None:
    stack = Stack(None, {"transformers": transformers}, None, None, True, "test")
    assert facts_for(stack).logits_keyword(model_class) == expected


def test_equal_numbers_of_another_type_are_another_value() -> None:
    releases = ["1", "2", "3", "4", "5"]
    spans = fold([0, 0, False, None, 0.0], releases)
    assert spans == [["1", "2", 0], ["3", "3", False], ["5", "5", 0.0]]
    places = {name: place for place, name in enumerate(releases)}
    assert [value_at(spans, release, places) for release in releases] == [0, 0, False, None, 0.0]


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("4.51.3", "4.51.3"),
        ("4.51.2", "4.51.0"),
        ("4.51.4+local", "4.51.3"),
        ("4.52.1", None),
        ("4.50.9", None),
        ("9.0", "4.53.0"),
        ("x", None),
    ],
)
def test_the_nearest_release_is_below_in_the_same_minor(version: str, expected: str | None) -> None:
    assert nearest_release(["4.51.0", "4.51.3", "4.53.0"], version) == expected


def test_releases_are_listed_oldest_first() -> None:
    assert releases_with_facts("trl")[0] == "0.14.0"
    assert len(releases_with_facts("trl")) >= 54
    assert releases_with_facts("torch") == ()
