"""An adapter in the weights computes what it computed beside them, of every kind, and takes no second model."""

import ctypes
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.stack

SIZES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 40}
HEADS = {"num_attention_heads": 4, "num_key_value_heads": 2}
M_MMAP_THRESHOLD = -3  # of malloc.h: what is larger goes back to the system as soon as it is freed
LINEAR = ["q_proj", "v_proj", "down_proj"]
ADAPTERS: dict[str, dict[str, Any]] = {
    "LoRA": {"target_modules": LINEAR},
    "rank-stabilised": {"target_modules": "all-linear", "use_rslora": True},
    "DoRA": {"target_modules": LINEAR, "use_dora": True},
    "biases": {"target_modules": ["q_proj", "v_proj"], "lora_bias": True},
    "the embedding": {"target_modules": [*LINEAR, "embed_tokens"]},
    "the output layer": {"target_modules": [*LINEAR, "lm_head"]},
    "copies": {"target_modules": LINEAR, "modules_to_save": ["embed_tokens"]},
    "tied copies": {"target_modules": LINEAR, "modules_to_save": ["embed_tokens"], "ensure_weight_tying": True},
    "some tokens": {"target_modules": LINEAR, "trainable_token_indices": {"embed_tokens": [38, 39]}},
}


def _adapted(tied: bool, dtype: Any, sizes: dict[str, int] = SIZES, **adapter: Any) -> Any:
    """A model with an adapter that changes what it computes."""
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(0)
    model = Qwen2ForCausalLM(Qwen2Config(**sizes, **HEADS, tie_word_embeddings=tied, initializer_range=0.1)).to(dtype)
    found = get_peft_model(model, LoraConfig(r=4, lora_alpha=8, **{"task_type": "CAUSAL_LM", **adapter}))
    with torch.no_grad():
        for weight in found.parameters():
            if weight.requires_grad:
                weight += 0.1 * torch.randn_like(weight)
    return found.eval()


def _said(model: Any) -> Any:
    import torch

    with torch.no_grad():
        return model(torch.arange(40)[None]).logits.double().log_softmax(-1)


@pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings=True`")
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
@pytest.mark.parametrize("kind", ADAPTERS)
def test_a_merged_model_computes_what_the_adapter_did(kind: str, tied: bool, tmp_path: Any) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    from grpo_recipes.worker.model.merging import merged

    model = _adapted(tied, torch.float32, **ADAPTERS[kind])
    beside = _said(model)
    with model.disable_adapter():
        assert (_said(model) - beside).abs().max() > 1e-2
    plain = merged(model, torch.float32, "do this")
    assert (_said(plain) - beside).abs().max() < 1e-4
    plain.save_pretrained(tmp_path)
    assert (_said(AutoModelForCausalLM.from_pretrained(tmp_path)) - beside).abs().max() < 1e-4


def test_what_peft_cannot_merge_is_said() -> None:
    import torch

    from grpo_recipes.worker._shared.replacing import Refused
    from grpo_recipes.worker.model.merging import merged

    model = _adapted(False, torch.float32, target_modules=["down_proj"], lora_bias=True)
    with pytest.raises(Refused, match="PEFT cannot merge this adapter"):
        merged(model, torch.float32, "do this")


def test_a_change_is_added_in_float32_and_rounded_once() -> None:
    import torch

    from grpo_recipes.worker.model.merging import merged

    model = _adapted(False, torch.bfloat16, target_modules=["q_proj"])
    layer = model.get_base_model().model.layers[0].self_attn.q_proj
    exact = layer.base_layer.weight.float() + layer.get_delta_weight("default").float()
    plain = merged(model, torch.float32, "do this")
    assert torch.equal(plain.model.layers[0].self_attn.q_proj.weight, exact)
    assert {weight.dtype for weight in plain.parameters()} == {torch.float32}


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="Linux alone tells the peak of a process anew")
def test_merging_takes_no_second_model() -> None:
    import torch

    from grpo_recipes.worker.model.merging import merged

    large = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 4, "vocab_size": 64}
    model = _adapted(False, torch.float32, sizes=large, target_modules="all-linear")
    size = sum(weight.nbytes for weight in model.parameters())
    assert size > 200 << 20
    ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 1 << 20)
    Path("/proc/self/clear_refs").write_text("5")
    before = _memory("VmHWM")
    merged(model, torch.bfloat16, "do this")
    # The merged weights alone, in half the bytes, take half of it.
    assert _memory("VmHWM") - before < 0.75 * size


def _memory(name: str) -> int:
    """Bytes that the system counts for this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) * 1024
