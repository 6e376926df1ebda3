"""MDL009: TRL loads the class that config.json names, and only some can be trained."""

import pytest
from library import Library

from grpo_recipes.rules._shared.loaded_model import task_of

pytestmark = pytest.mark.stack


@pytest.mark.parametrize("name", ["Qwen2ForSequenceClassification", "Qwen2Model", "BertForMaskedLM"])
def test_a_class_that_does_not_generate_cannot_be_trained(library: Library, name: str) -> None:
    assert task_of({"architectures": [name]}) not in (None, "generates")
    assert library.call("in_model.train_as", architecture=name).raised != ""


def test_no_class_that_generates_is_taken_for_another(library: Library) -> None:
    for mapping in ("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES"):
        configurations = library.call("in_model.default_configurations", mapping=mapping).result
        tasks = {name: task_of(one) for name, one in configurations.items() if "EncoderDecoder" not in name}
        assert len(tasks) > 30
        assert {name: task for name, task in tasks.items() if task not in (None, "generates")} == {}
