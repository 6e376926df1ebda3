"""GEN013: learned positions end, rotary ones do not."""

import json
from pathlib import Path

import pytest
from library import Library

from grpo_recipes.rules.completions_fit_into_the_models_context import LEARNED

pytestmark = pytest.mark.stack
BEYOND = {"positions": 16, "length": 24}


@pytest.mark.parametrize("family", ["qwen2", "llama", "mistral"])
def test_a_model_with_rotary_positions_goes_on(library: Library, family: str) -> None:
    answer = library.call("in_generation.beyond", family=family, **BEYOND)
    assert (answer.raised, answer.result) == ("", 24)


@pytest.mark.parametrize("family", LEARNED)
def test_a_model_with_learned_positions_ends(library: Library, family: str) -> None:
    assert library.call("in_generation.beyond", family=family, **BEYOND).raised == "IndexError"
    assert library.call("in_generation.beyond", family=family, positions=16, length=14).result == 14


def test_plain_positions_are_written_as_a_type_of_their_own(library: Library) -> None:
    place = library.call("in_model._saved", folder="plain").result
    config = json.loads(Path(place, "config.json").read_text())
    assert config["rope_parameters"]["rope_type"] == "default"
