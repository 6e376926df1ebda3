"""A merged model computes what model and adapter did when they were trained."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from worker_runs import NF4, Changes

from grpo_recipes.contract.plan_sections import Ancestor
from grpo_recipes.contract.read_plan import plan_of

pytestmark = pytest.mark.stack


def adapter_on(model: Path, folder: Path, **changes: Any) -> Path:
    """An adapter that changes what the model computes, in a folder as PEFT writes it."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    torch.manual_seed(1)
    base = AutoModelForCausalLM.from_pretrained(model, dtype="float32")
    adapted = get_peft_model(base, LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False, **changes))
    for name, parameter in adapted.named_parameters():
        if "modules_to_save" in name:
            parameter.data += torch.randn_like(parameter) / 10
    adapted.save_pretrained(folder)
    return folder


def merged(make_plan: Callable[..., Changes], adapter: Path, place: Path, **changes: Any) -> Path:
    from grpo_recipes.worker.model.own_model import write_own_model

    ancestor = Ancestor("merge", "before", str(adapter), None, None, None, "folder", str(adapter), **changes)
    write_own_model(plan_of(make_plan("full", ancestor=json.loads(json.dumps(dataclasses.asdict(ancestor))))), place)
    return place


def log_probs(model: Any) -> Any:
    import torch

    with torch.no_grad():
        return model(input_ids=torch.arange(24).reshape(2, 12)).logits.log_softmax(-1)


@pytest.mark.parametrize("quantization", [None, NF4], ids=["float32", "nf4"])
@pytest.mark.parametrize("saved", [None, ["embed_tokens"]], ids=["layers", "one end of tied embeddings"])
def test_a_merged_model_computes_what_model_and_adapter_did(
    quantization: Changes | None,
    saved: list[str] | None,
    make_plan: Callable[..., Changes],
    tiny_model: Path,
    tmp_path: Path,
) -> None:
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    adapter = adapter_on(tiny_model, tmp_path / "adapter", modules_to_save=saved)
    written = merged(make_plan, adapter, tmp_path / "merged_model", quantization=quantization, dtype="float32")

    loading = {} if quantization is None else {"quantization_config": BitsAndBytesConfig(**quantization)}
    base = AutoModelForCausalLM.from_pretrained(tiny_model, dtype="float32", device_map={"": "cpu"}, **loading)
    base = base if quantization is None else base.dequantize()
    before = log_probs(base)
    told = log_probs(PeftModel.from_pretrained(base, adapter))
    found = log_probs(AutoModelForCausalLM.from_pretrained(written, dtype="float32"))
    assert torch.allclose(found, told, atol=1e-4)
    assert (told - before).abs().max() > 0.1
    assert "quantization_config" not in json.loads((written / "config.json").read_text())


def test_an_adapter_that_lacks_tensors_is_not_merged(
    make_plan: Callable[..., Changes], tiny_model: Path, tmp_path: Path
) -> None:
    """PEFT loads it without a word, and what is lacking stays as it was drawn."""
    from safetensors.torch import load_file, save_file

    from grpo_recipes.worker._shared.replacing import Refused

    file = adapter_on(tiny_model, tmp_path / "adapter") / "adapter_model.safetensors"
    save_file(dict(list(load_file(file).items())[2:]), file)
    with pytest.raises(Refused, match="does not fit this model and these modules"):
        merged(make_plan, file.parent, tmp_path / "merged_model")
    assert not (tmp_path / "merged_model").exists()
