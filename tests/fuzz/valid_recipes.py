"""Random recipes that train rightly by their making: every value is drawn from what goes with the others."""

import random
from typing import Any

TARGETS = ("all-linear", ["q_proj", "v_proj"], ["q_proj", "k_proj", "v_proj", "o_proj"], r".*\.[qv]_proj")


def _some(draw: random.Random, choices: dict[str, tuple[Any, ...]], share: float = 0.4) -> dict[str, Any]:
    return {name: draw.choice(values) for name, values in choices.items() if draw.random() < share}


def _world(draw: random.Random) -> tuple[int, str, list[str]]:
    """GPUs, the --target's word for them, and the strategies that fit."""
    count = draw.choice([0, 1, 1, 1, 2, 4, 8])
    if count == 0:
        return 0, "0", ["auto", "single"]
    kind = draw.choice(["H100-80GB", "A100-80GB", "A100-40GB", "L4"])
    many = ["auto", "ddp", "zero1", "zero2", "zero3"]
    return count, f"{count}x{kind}", ["auto", "single"] if count == 1 else many


def _model(draw: random.Random, gpus: int) -> dict[str, Any]:
    model = {
        "model_name_or_path": draw.choice(["Qwen/Qwen2-0.5B-Instruct", "owner/model", "Qwen/Qwen2.5-1.5B-Instruct"])
    }
    model |= _some(draw, {"attn_implementation": ("auto", "sdpa", "eager"), "model_revision": (None, "main")})
    if gpus and draw.random() < 0.6:
        model["dtype"] = draw.choice(["bfloat16", "float32"])
    return model


def _adapter(draw: random.Random, gpus: int, strategy: str) -> dict[str, Any]:
    """No adapter, one, or one over a quantized model."""
    if draw.random() < 0.4:
        return {}
    lora = {
        "r": draw.choice([4, 8, 16, 64]),
        "lora_alpha": draw.choice([8, 16, 32]),
        "target_modules": draw.choice(TARGETS),
    }
    lora |= _some(draw, {"lora_dropout": (0.0, 0.05, 0.1), "use_rslora": (True, False), "bias": ("none",)}, 0.3)
    if not gpus or strategy in ("zero3", "auto") or draw.random() < 0.6:
        return {"lora": lora}
    four = {
        "load_in_4bit": True,
        "bnb_4bit_quant_type": draw.choice(["nf4", "fp4"]),
        "bnb_4bit_compute_dtype": "bfloat16",
    }
    return {"lora": lora, "quantization": draw.choice([four, {"load_in_4bit": True}, {"load_in_8bit": True}])}


def _algorithm(draw: random.Random) -> tuple[dict[str, Any], dict[str, Any]]:
    """The sections grpo and trl: a loss with the importance ratio that it asks for."""
    loss = draw.choice(["dapo", "dapo", "grpo", "dr_grpo", "cispo", "sapo", "luspo", "vespo"])
    grpo = {"loss_type": loss, "num_generations": draw.choice([2, 4, 8, 16])}
    if loss == "luspo":
        grpo["importance_sampling_level"] = "sequence"
    scales: dict[str, tuple[Any, ...]] = {"scale_rewards": ("group", "batch", "none", True, False)}
    bounds = {"epsilon": (0.1, 0.2, 3e-4), "epsilon_high": (None, 0.28), "num_iterations": (1, 2)}
    beta = {"beta": (0.0, 0.04), "optimizer_steps_per_generation": (1, 2), "mask_truncated_completions": (True, False)}
    trl = {"sapo_temperature_neg": 1.1} if loss == "sapo" else {}
    trl |= _some(draw, {"disable_dropout": (True, False), "data_seed": (7,), "dataloader_num_workers": (0, 2)}, 0.15)
    return grpo | _some(draw, scales | bounds | beta, 0.3), trl


def _training(draw: random.Random, autocast: bool | None) -> dict[str, Any]:
    """autocast: whether there must be one; None where there can be none."""
    choices: dict[str, tuple[Any, ...]] = {
        "learning_rate": (1e-6, 1e-5, 2e-4),
        "lr_scheduler_type": ("linear", "cosine", "constant", "constant_with_warmup"),
        "warmup_steps": (0, 10, 0.1),
        "optim": ("adamw_torch_fused", "adamw_torch", "sgd"),
        "weight_decay": (0.0, 0.1),
        "adam_beta2": (0.999, 0.95),
        "max_grad_norm": (1.0, 0.2, 0),
        "gradient_checkpointing": (True, False),
        "save_steps": (0, 40),
        "save_total_limit": (None, 2),
    }
    length = draw.choice([{"max_steps": draw.choice([10, 500])}, {"num_train_epochs": draw.choice([1, 2.5])}])
    training = {"prompts_per_step": 16 * draw.choice([1, 2, 4])} | length | _some(draw, choices)
    if training.get("lr_scheduler_type") == "constant":
        training.pop("warmup_steps", None)
    if autocast or (autocast is not None and draw.random() < 0.5):
        training["bf16"] = True
    return training


def valid_recipe(draw: random.Random) -> tuple[dict[str, Any], str]:
    """The values of a recipe, and the GPUs of a --target on which it trains."""
    gpus, words, strategies = _world(draw)
    strategy = draw.choice(strategies)
    grpo, trl = _algorithm(draw)
    model = _model(draw, gpus)
    sampling: dict[str, tuple[Any, ...]] = {
        "temperature": (1.0, 0.7),
        "top_p": (1.0, 0.95),
        "top_k": (0, 50),
        "max_completion_length": (64, 512, 2048),
        "repetition_penalty": (1.0, 1.1),
        "stop": ([], ["</answer>"], ["###", "\n\n"]),
    }
    rewards = [{"name": "exact_match"}, {"name": "completion_length", "weight": 0.5, "options": {"max_characters": 99}}]
    values: dict[str, Any] = {
        "recipe": 1,
        "name": "valid",
        "seed": draw.randint(0, 2**31 - 1),
        "model": model,
        "dataset": {"path": "owner/data", "prompt": "{{ question }}", "columns": {"solution": "{{ answer }}"}},
        "rewards": rewards[: draw.choice([1, 2])],
        "generation": _some(draw, sampling),
        "grpo": grpo,
        "training": _training(draw, (strategy == "zero3" and model.get("dtype") == "bfloat16") if gpus else None),
        "distributed": {"strategy": strategy},
    } | _adapter(draw, gpus, strategy)
    if trl:
        values["trl"] = trl
    if draw.random() < 0.2:
        values["evaluation"] = {"path": "owner/data", "split": "test", "max_rows": 100, "every_steps": 50}
    return values, words
