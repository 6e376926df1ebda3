"""Operations are those that torch counts in TRL's own loss."""

import math
from typing import Any

import pytest

from grpo_recipes.memory.compute import active_parameters, forward_flops, prompt_flops, token_flops, update_flops
from grpo_recipes.memory.update import Adapter, Update
from grpo_recipes.user_files.architecture import Architecture, read_architecture
from grpo_recipes.user_files.model_config import read_model_config

CONFIG = {
    "model_type": "qwen2",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 4096,
    "tie_word_embeddings": True,
}
QWEN3_30B_A3B = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "intermediate_size": 6144,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "vocab_size": 151936,
    "tie_word_embeddings": False,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 768,
}
FULL = Update(4, None, None, None, False, "eager", 2, 64, 64, 2, "adamw_torch", "fused", device="cpu")


def _architecture(config: dict[str, Any]) -> Architecture:
    found = read_architecture(config)
    assert found is not None
    return found


SMALL = _architecture(CONFIG)


def test_a_forward_pass_by_hand() -> None:
    """Two rows of three tokens: a layer has q 256x256, k and v 256x128, o 256x256, gate, up, down 256x512."""
    layer = 2 * 256 * 256 + 2 * 256 * 128 + 3 * 256 * 512
    found = forward_flops(SMALL, FULL, rows=2, length=3, scored=1)
    assert found.weights == 2 * 6 * 2 * layer
    assert found.attention == 2 * 2 * (2 * 4 * 3 * 3 * 64) * 2
    assert found.output == 2 * 2 * 4096 * 256
    assert found.adapter == 0
    assert found.layers() == found.total() - found.output


def test_a_known_model_has_two_operations_for_each_weight_and_token() -> None:
    config = read_model_config("Qwen/Qwen2.5-7B")
    assert config is not None
    found = forward_flops(_architecture(config), FULL, rows=1, length=1, scored=1)
    assert found.weights + found.output == pytest.approx(2 * (7.62e9 - 152064 * 3584), rel=0.001)


def test_an_expert_that_a_token_does_not_go_to_computes_nothing() -> None:
    architecture = _architecture(QWEN3_30B_A3B)
    active = architecture.layers * active_parameters(architecture)
    assert active + 2 * 151936 * 2048 == pytest.approx(3.3e9, rel=0.02)  # the model card says 3.3B activated


def test_a_completion_costs_its_tokens_one_by_one() -> None:
    """The sum over all new tokens is that of a pass over the completion, but for what looks ahead."""
    update = FULL._replace(prompt=10, completion=4)
    by_token = update.completion * token_flops(SMALL, update, 3)
    products = forward_flops(SMALL, update, rows=3, length=4, scored=4)
    looks = 4 * 3 * 2 * 4 * 64 * sum(10 + new + 0.5 for new in range(4))
    assert by_token == products.weights + products.output + looks
    assert prompt_flops(SMALL, update, 3) == forward_flops(SMALL, update, 3, 10, 1).total()


@pytest.mark.parametrize(
    ("changes", "more"),
    [
        pytest.param({}, 0, id="as it is"),
        pytest.param({"attention": "sdpa"}, 0.5, id="a kernel that computes the scores again on the way back"),
    ],
)
def test_attention_on_the_way_back(changes: dict[str, Any], more: float) -> None:
    forward = forward_flops(SMALL, FULL, 2, 128, 1)
    found = update_flops(SMALL, FULL._replace(**changes)) - update_flops(SMALL, FULL)
    assert found == more * forward.attention


def _counted(config: dict[str, Any], update: Update, targets: str | list[str] | None) -> tuple[int, int]:
    """What torch counts forward, and in all, when TRL computes one micro-batch of a real model."""
    import torch
    from support.tracing.bare_trainer import bare_trainer, batch
    from torch.utils.flop_counter import FlopCounterMode
    from transformers import AutoConfig, AutoModelForCausalLM
    from trl.trainer.utils import add_fused_lm_head

    sizes = {name: value for name, value in config.items() if name != "model_type"}
    built = AutoConfig.for_model(config["model_type"], **sizes)
    model: Any = AutoModelForCausalLM.from_config(built, attn_implementation="eager")
    add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    if update.is_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        model.enable_input_require_grads()
    if targets is not None:
        from peft import LoraConfig, get_peft_model

        model = get_peft_model(model, LoraConfig(r=8, target_modules=targets, task_type="CAUSAL_LM"))
    asked = {"batch": 2, "prompt": 64, "completion": 64, "accumulation": 2, "beta": 0.0, "autocast": None}
    trainer = bare_trainer(model.train(), asked)

    def product_in_place(shape: Any, left: Any, right: Any, **_: Any) -> int:
        return 2 * math.prod(left) * right[1]

    # torch 2.13.0 has no figure for what adds a product to a tensor in place, as TRL's output layer does.
    with FlopCounterMode(display=False, custom_mapping={torch.ops.aten.addmm_: product_in_place}) as counter:
        loss = trainer._compute_loss(model, batch(asked))
        forward = counter.get_total_flops()
        loss.backward()
    return forward, counter.get_total_flops()


@pytest.mark.stack
@pytest.mark.parametrize("is_checkpointing", [False, True], ids=["all kept", "checkpointing"])
@pytest.mark.parametrize(
    "targets",
    [
        pytest.param(None, id="all weights"),
        pytest.param("all-linear", id="adapter"),
        pytest.param(["q_proj", "k_proj", "v_proj"], id="adapter of some"),
    ],
)
def test_an_update_is_what_torch_counts(targets: str | list[str] | None, is_checkpointing: bool) -> None:
    ends = tuple(targets) if isinstance(targets, list) else targets
    adapter = None if ends is None else Adapter(8, ends, width=4)
    update = FULL._replace(adapter=adapter, is_checkpointing=is_checkpointing)
    forward, whole = _counted(CONFIG, update, targets)
    assert forward_flops(SMALL, update, 2, 128, 127).total() == forward
    assert update_flops(SMALL, update) == whole


@pytest.mark.stack
@pytest.mark.parametrize("is_checkpointing", [False, True], ids=["all kept", "checkpointing"])
@pytest.mark.parametrize("targets", [pytest.param(None, id="all weights"), pytest.param("all-linear", id="adapter")])
@pytest.mark.parametrize("family", ["gemma3_text", "phi3", "olmo2"])
def test_an_update_of_each_family_is_what_torch_counts(
    family: str, targets: str | None, is_checkpointing: bool
) -> None:
    config = {**CONFIG, "model_type": family, "head_dim": 64, "pad_token_id": 0, "eos_token_id": 1}
    architecture, adapter = _architecture(config), None if targets is None else Adapter(8, targets, width=4)
    update = FULL._replace(adapter=adapter, is_checkpointing=is_checkpointing)
    forward, whole = _counted(config, update, targets)
    assert forward_flops(architecture, update, 2, 128, 127).total() == forward
    assert update_flops(architecture, update) == whole
