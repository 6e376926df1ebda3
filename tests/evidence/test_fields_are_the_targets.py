"""FCT001, FCT002, FCT005: what the libraries do with fields and values that they do not have."""

from typing import Any

import pytest
from library import Library
from support.releases import TESTED

from grpo_recipes.facts.released.shipped import shipped_facts

pytestmark = pytest.mark.stack

CLOSED = {
    f"{owner}.{name}": field.allowed
    for package, version in ((name, TESTED[name]) for name in ("trl", "transformers", "peft"))
    for facts in [shipped_facts(package, version)]
    if facts is not None
    for owner, fields in facts.owners.items()
    for name, field in fields.fields.items()
    if field.allowed is not None
}
# Where a word that the class does not know is noticed.
NOTICED = {
    "GRPOConfig.importance_sampling_level": "train",
    "GRPOConfig.loss_type": "train",
    "GRPOConfig.multi_objective_aggregation": "train",
    "GRPOConfig.scale_rewards": "train",
    "TrainingArguments.eval_strategy": "config",
    "TrainingArguments.hub_strategy": "config",
    "TrainingArguments.logging_strategy": "config",
    "TrainingArguments.lr_scheduler_type": "config",
    "TrainingArguments.optim": "config",
    "TrainingArguments.save_strategy": "config",
    "BitsAndBytesConfig.bnb_4bit_quant_storage": "trainer",
    "BitsAndBytesConfig.bnb_4bit_quant_type": "trainer",
    "LoraConfig.bias": "trainer",
}
# Read by the vLLM path alone; without vLLM any word is taken and never looked at.
READ_BY_VLLM = {"GRPOConfig.vllm_mode", "GRPOConfig.vllm_importance_sampling_mode"}


def test_every_closed_set_is_judged_here() -> None:
    assert set(NOTICED) | READ_BY_VLLM == set(CLOSED)


def _stage(library: Library, key: str, value: object) -> str:
    """The stage at which a value raises, "" when training goes through."""
    owner, _, name = key.partition(".")
    parts: dict[str, Any] = {"arguments": {}}
    if owner in ("GRPOConfig", "TrainingArguments"):
        parts["arguments"] = {name: value}
    elif owner == "LoraConfig":
        parts["lora"] = {name: value}
    else:
        parts |= {"quantization": {"load_in_4bit": True, name: value}, "lora": {"r": 2}}
    answer = library.call("train", **parts)
    return answer.stage if answer.raised else ""


@pytest.mark.parametrize("key", NOTICED)
def test_a_word_of_no_set_raises(library: Library, key: str) -> None:
    word = next(str(choice) for choice in CLOSED[key] or () if isinstance(choice, str))
    assert _stage(library, key, word + "p") == NOTICED[key]


@pytest.mark.parametrize("key", sorted(READ_BY_VLLM))
def test_a_word_for_vllm_is_not_looked_at_without_it(library: Library, key: str) -> None:
    assert _stage(library, key, "p") == ""


@pytest.mark.parametrize("key", ["GRPOConfig.loss_type", "GRPOConfig.scale_rewards"])
def test_every_word_of_the_set_trains(library: Library, key: str) -> None:
    raised = {choice: _stage(library, key, choice) for choice in CLOSED[key] or ()}
    assert set(raised.values()) == {""}, raised


@pytest.mark.parametrize("name", ["num_generation", "max_prompt_length", "vllm_device"])
def test_a_field_that_grpo_config_does_not_have_raises_when_built(library: Library, name: str) -> None:
    answer = library.call("config", world_size=1, arguments={name: 8}, read=[])
    assert (answer.stage, answer.raised) == ("config", "TypeError")
    assert f"unexpected keyword argument '{name}'" in answer.text


def test_a_field_that_lora_config_does_not_have_raises_when_built(library: Library) -> None:
    answer = library.call("attach", lora={"rank": 8})
    assert (answer.stage, answer.raised) == ("config", "TypeError")


def test_a_field_that_bits_and_bytes_config_does_not_have_is_dropped_without_a_word(library: Library) -> None:
    answer = library.call("bits_and_bytes", arguments={"load_in_4bit": True, "bnb_4bit_quant": "nf4"})
    assert (answer.raised, answer.result, answer.warnings) == ("", "fp4", [])


@pytest.mark.parametrize(("name", "value"), [("num_generations", "8"), ("epsilon", "0.2"), ("beta", "no")])
def test_a_field_of_another_type_is_not_noticed_or_noticed_late(library: Library, name: str, value: str) -> None:
    answer = library.call("train", arguments={name: value})
    assert answer.raised == "TypeError" or answer.stage == "train"
