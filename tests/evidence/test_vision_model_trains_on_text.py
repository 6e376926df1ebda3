"""MDL003: which configurations are of models that see, and what TRL does with one that gets text."""

import pytest
from library import Library

from grpo_recipes.rules._shared.loaded_model import sees

pytestmark = pytest.mark.stack


def test_no_model_of_text_is_taken_for_one_that_sees(library: Library) -> None:
    configurations = library.call("in_model.default_configurations", mapping="MODEL_FOR_CAUSAL_LM_MAPPING_NAMES").result
    text = {name: one for name, one in configurations.items() if name.endswith(("ForCausalLM", "LMHeadModel"))}
    assert len(text) > 100
    assert {name for name, one in text.items() if sees(one)} <= {"Phi4MultimodalForCausalLM"}


def test_the_models_that_users_give_pictures_to_are_known_to_see(library: Library) -> None:
    mapping = "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES"
    configurations = library.call("in_model.default_configurations", mapping=mapping).result
    generating = {name: one for name, one in configurations.items() if name.endswith("ForConditionalGeneration")}
    assert len(generating) > 30
    blind = {name for name, one in generating.items() if not sees(one)}
    families = ("Qwen", "Gemma3", "Llava", "Smol", "Idefics3", "Intern", "Mistral3", "Mllama", "PaliGemma")
    assert not {name for name in blind if name.startswith(families)}


def test_text_leaves_the_part_that_sees_as_it_is(library: Library) -> None:
    answer = library.call("in_model.train_one_that_sees")
    assert (answer.raised, answer.text) == ("", "")
    assert sees(answer.result["config"])
    assert answer.result["moved"] and not any("vision" in name for name in answer.result["moved"])
    assert answer.result["idle"] and all("vision" in name or "projector" in name for name in answer.result["idle"])
