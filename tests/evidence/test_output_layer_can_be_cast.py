"""GRP009: cast_lm_head_to_fp32 finds the embedding of a tied Qwen2, not behind an adapter, and not of GPT-2."""

import pytest
from library import Library

pytestmark = pytest.mark.stack

CAST = {"cast_lm_head_to_fp32": True}


@pytest.mark.parametrize(
    ("lora", "raised"), [(None, ""), ({"r": 4, "target_modules": ["q_proj"]}, "AttributeError")], ids=["full", "lora"]
)
def test_behind_an_adapter_it_is_not_found(library: Library, lora: dict[str, object] | None, raised: str) -> None:
    answer = library.call("build", arguments=CAST, lora=lora)
    assert (answer.stage, answer.raised) == ("trainer", raised)
    assert ("embed_tokens" in answer.text) == bool(raised)


@pytest.mark.parametrize("is_tied", [False, True])
@pytest.mark.parametrize("kind", ["Qwen2", "GPT2"])
def test_under_another_name_it_is_not_found(library: Library, kind: str, is_tied: bool) -> None:
    answer = library.call("in_trl.cast_output_layer", kind=kind, is_tied=is_tied, lora=None)
    assert answer.raised == ("AttributeError" if kind == "GPT2" and is_tied else "")


def test_an_adapter_on_an_output_layer_of_its_own_is_fine(library: Library) -> None:
    assert library.call("in_trl.cast_output_layer", kind="Qwen2", is_tied=False, lora={"r": 4}).raised == ""
