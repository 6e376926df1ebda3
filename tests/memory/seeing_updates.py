"""`python seeing_updates.py`: runs real updates of vision models on the CPU; each a line of JSON in, its bytes out.

The loss is the installed GRPOTrainer's, and every tensor is tracked while it lives.
"""

import contextlib
import json
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch
from support.tracing.bare_trainer import autocast, bare_trainer, batch, prepare
from support.tracing.live import LiveBytes

from grpo_recipes.rules.adapter_has_modules_left import TOWERS

CLASSES = {"idefics3": "Idefics3", "llava_next": "LlavaNext", "gemma3": "Gemma3", "qwen2_5_vl": "Qwen2_5_VL"}
IMAGE_TOKEN = 5


class _Alive(LiveBytes):
    """The bytes of real tensors, for code that depends on their values."""

    def _answer(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return func(*args, **kwargs)


def updated(asked: Mapping[str, Any]) -> dict[str, int]:
    """The bytes of the second update: of each kind, and the overall peak; and the peak of generation."""
    live = _Alive(0)
    with live:
        model = _model(asked)
    weights = live.now
    prepare(model, asked)
    model.train()
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-5, fused=True)
    with live:
        trainer = bare_trainer(model, asked)
        seen = _seen(asked)
        generated = _generated(model, seen, asked, live) if asked.get("generates", True) else 0
        inputs = {**batch(asked), **seen}
        _follow(model, live)
        for _ in range(2):
            live.peaks.clear()
            for _ in range(asked["accumulation"]):
                before = live.now
                live.phase = "forward"
                with autocast(asked):
                    loss = trainer._compute_loss(model, inputs)
                kept = live.at_output - before
                live.phase = "backward"
                live.note()
                loss.backward()
                del loss
            gradients = sum(_bytes(one.grad) for one in trained if one.grad is not None)
            live.phase = "step"
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    states = sum(_bytes(value) for state in optimizer.state.values() for value in state.values() if value.dim())
    return {
        "parameters": sum(one.numel() for one in model.parameters()),
        "weights": weights,
        "gradients": gradients,
        "optimizer": states,
        "activations": kept,
        "peak": max(live.peaks.values()),
        "generation": generated,
    }


def _generated(model: Any, seen: Mapping[str, Any], asked: Mapping[str, Any], live: LiveBytes) -> int:
    """The peak while completions are made, as in TRL: without autocast for an adapted model."""
    ids, length = seen["prompt_ids"], asked["completion"]
    kinds = {name: value[:, : ids.shape[1]] for name, value in seen.items() if name.endswith("type_ids")}
    rest = {name: value for name, value in seen.items() if name not in ("prompt_ids", "num_images")}
    live.phase = "generation"
    mixed = autocast(asked) if asked["lora"] is None else contextlib.nullcontext()
    with torch.no_grad(), mixed:
        given = {**rest, **kinds, "input_ids": ids, "attention_mask": torch.ones_like(ids)}
        model.generate(**given, do_sample=True, max_new_tokens=length, min_new_tokens=length)
    return live.peaks["generation"]


def _model(asked: Mapping[str, Any]) -> Any:
    import transformers
    from peft import LoraConfig, get_peft_model
    from trl.trainer.utils import add_fused_lm_head

    config = dict(asked["config"])
    name = CLASSES[config.pop("model_type")]
    read = getattr(transformers, f"{name}Config")(**json.loads(json.dumps(config)))
    model = getattr(transformers, f"{name}ForConditionalGeneration")._from_config(
        read, dtype=getattr(torch, asked["dtype"])
    )
    if asked["checkpointing"]:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    lora = asked["lora"]
    if lora is None:
        return model
    excluded = TOWERS if lora["spares_vision"] else None
    model.requires_grad_(False)
    adapted = get_peft_model(
        model,
        LoraConfig(r=lora["r"], target_modules=lora["targets"], exclude_modules=excluded, task_type="CAUSAL_LM"),
    )
    if asked["checkpointing"]:
        adapted.enable_input_require_grads()
    return adapted


def _seen(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The processor's image inputs for a micro-batch, and prompts with their tokens."""
    config, rows = asked["config"], asked["batch"]
    ids = torch.full((rows, asked["prompt"]), 7)
    ids[:, : asked["image_tokens"]] = IMAGE_TOKEN
    found: dict[str, Any] = {"prompt_ids": ids, "num_images": [1] * rows}
    kinds = torch.nn.functional.pad((ids == IMAGE_TOKEN).long(), (0, asked["completion"]))
    side = config["vision_config"].get("image_size", 0)
    if config["model_type"] == "qwen2_5_vl":
        high, wide = asked["grid"]
        found["pixel_values"] = torch.randn(rows * high * wide, 1176)
        found["image_grid_thw"] = torch.tensor([[1, high, wide]] * rows)
        found["mm_token_type_ids"] = kinds
        return found
    if config["model_type"] == "gemma3":
        return {**found, "pixel_values": torch.randn(rows, 3, side, side), "token_type_ids": kinds}
    found["pixel_values"] = torch.randn(rows, asked["tiles"], 3, side, side)
    if config["model_type"] == "idefics3":
        return {**found, "pixel_attention_mask": torch.ones(rows, asked["tiles"], side, side, dtype=torch.long)}
    return {**found, "image_sizes": torch.tensor([[2 * side, 2 * side]] * rows)}


def _follow(model: Any, live: LiveBytes) -> None:
    def at_the_end(module: Any, inputs: Any, output: Any) -> None:
        live.at_output = live.now

    base = model.get_base_model() if hasattr(model, "get_base_model") else model
    inner = base.model
    getattr(inner, "language_model", getattr(inner, "text_model", None)).norm.register_forward_hook(at_the_end)


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    for line in sys.stdin:
        print(json.dumps(updated(json.loads(line))), flush=True)
