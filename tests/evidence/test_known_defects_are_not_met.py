"""STK015: what the libraries do in the combinations of the table that fail for some recipes."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from library import Library

pytestmark = pytest.mark.stack


def test_merged_weights_are_what_a_trainer_keeps_that_loads_them_before_it_unmerges(library: Library) -> None:
    far = library.call("handed_over", unmerged_first=False).result
    assert far["merged"] == 0
    assert far["base"] > 0.01


def test_weights_kept_of_a_merged_adapter_are_the_bases_once_it_is_unmerged(library: Library) -> None:
    # The order of trl 0.15.0: merge, keep the state dict, unmerge, load.
    far = library.call("handed_over", unmerged_first=True).result
    assert far["base"] < 1e-6
    assert far["merged"] > 0.01


def test_deepspeed_has_not_the_method_that_the_oldest_trl_calls() -> None:
    spec = find_spec("deepspeed")
    assert spec is not None
    assert spec.origin is not None
    source = Path(spec.origin).with_name("runtime") / "zero" / "parameter_offload.py"
    assert "_register_hooks_recursively" not in source.read_text()
    assert "def _register_deepspeed_module" in source.read_text()


def test_tokenizers_have_not_the_attribute_that_older_vllm_asks_for() -> None:
    from transformers import PreTrainedTokenizerFast

    assert hasattr(PreTrainedTokenizerFast(tokenizer_object=_tokenizer()), "all_special_tokens")
    with pytest.raises(AttributeError, match="all_special_tokens_extended"):
        _ = PreTrainedTokenizerFast(tokenizer_object=_tokenizer()).all_special_tokens_extended


def _tokenizer() -> Any:
    from tokenizers import Tokenizer, models

    return Tokenizer(models.WordLevel({"<unk>": 0}, unk_token="<unk>"))
