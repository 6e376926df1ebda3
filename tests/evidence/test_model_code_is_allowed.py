"""MDL005: what transformers does with auto_map when the model's code may not run."""

import pytest
from library import Library

pytestmark = pytest.mark.stack

MAP = {"auto_map": {"AutoConfig": "configuration.Own", "AutoModelForCausalLM": "modeling.Own"}}


def test_a_type_that_transformers_knows_is_loaded_as_its_own(library: Library) -> None:
    place = library.call("in_model._saved", folder="known", **MAP).result
    assert library.call("build", arguments={}, model=place).raised == ""


def test_another_type_raises(library: Library) -> None:
    place = library.call("in_model._saved", folder="own", model_type="own", architectures=["Own"], **MAP).result
    answer = library.call("build", arguments={}, model=place)
    assert (answer.stage, answer.raised) == ("trainer", "ValueError")
    assert "contains custom code which must be executed" in answer.text
