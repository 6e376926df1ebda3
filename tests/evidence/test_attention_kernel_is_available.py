"""MDL002: kernels that transformers does not know, or that are not there, raise while the model is loaded."""

import pytest
from library import Library

from grpo_recipes.rules.attention_kernel_is_available import WORDS

pytestmark = pytest.mark.stack


def test_the_words_are_those_of_transformers(library: Library) -> None:
    known = library.call("in_model.attention_kernels").result
    assert {word for word in known if "|" not in word} | {"eager"} == set(WORDS)


@pytest.mark.parametrize("word", ["sdpa", "eager", "flex_attention"])
def test_what_needs_nothing_is_loaded(library: Library, word: str) -> None:
    answer = library.call("in_model.attention_of", word=word)
    assert (answer.raised, answer.result["used"]) == ("", word)


@pytest.mark.parametrize("word", ["flash_atention_2", "xformers", "FLASH_ATTENTION_2"])
def test_an_unknown_word_raises_while_loading(library: Library, word: str) -> None:
    answer = library.call("in_model.attention_of", word=word)
    assert (answer.stage, answer.raised) == ("trainer", "ValueError")
    assert "The only possible arguments are" in answer.text


def test_a_kernel_without_its_package_raises_while_loading(library: Library) -> None:
    answer = library.call("in_model.attention_of", word="flash_attention_2")
    assert (answer.stage, answer.raised) == ("trainer", "ImportError")
    assert "doesn't seem to be installed" in answer.text


@pytest.mark.parametrize(("dtype", "given"), [("float32", "float32"), ("bfloat16", "bfloat16")])
def test_flash_attention_is_given_the_dtype_of_the_weights(library: Library, dtype: str, given: str) -> None:
    assert library.call("in_model.flash_attention_dtype", dtype=dtype, autocast=False).result == f"torch.{given}"


def test_under_autocast_flash_attention_is_given_16_bits(library: Library) -> None:
    assert library.call("in_model.flash_attention_dtype", dtype="float32", autocast=True).result == "torch.bfloat16"


@pytest.mark.parametrize(("lora", "dtype"), [(False, "torch.bfloat16"), (True, "torch.float32")])
def test_an_adapter_generates_outside_of_autocast(library: Library, lora: bool, dtype: str) -> None:
    answer = library.call("in_model.generation_dtypes", lora=lora)
    assert (answer.raised, answer.result) == ("", [dtype])
