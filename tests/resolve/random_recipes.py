"""Random recipes over the whole format, valid on the newest release, the same for the same seed."""

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from small_recipe import STACK, declared

from grpo_recipes.resolve.resolve import resolve_source
from grpo_recipes.yaml.compose import Source, compose

Values = dict[str, Any]
Choice = Callable[[random.Random], object]
NEWEST = declared(STACK.replace("gpus=0", "gpus=1xH100-80GB"))


def _one_of(*choices: object) -> Choice:
    """One of them; the first, which most releases can express, in half of the recipes."""
    return lambda draw: choices[0] if draw.random() < 0.5 else draw.choice(choices)


def _between(low: int, high: int) -> Choice:
    return lambda draw: draw.randint(low, high)


MODEL = {
    "dtype": _one_of("float32", "bfloat16"),
    "attn_implementation": _one_of("auto", "sdpa", "eager"),
    "trust_remote_code": _one_of(False, True),
    "model_revision": _one_of(None, "main"),
}
GENERATION = {
    "temperature": _one_of(1.0, 0.9, 0.7),
    "top_k": _one_of(50, 0, 20),
    "top_p": _one_of(1.0, 0.95),
    "min_p": _one_of(None, 0.05),
    "repetition_penalty": _one_of(1.0, 1.1),
    "max_completion_length": _one_of(256, 8, 2048),
    "max_prompt_length": _one_of(None, 128),
    "chat_template_kwargs": _one_of({}, {"enable_thinking": False}),
}
GRPO = {
    "num_generations": _one_of(8, 2, 4, 16),
    "beta": _one_of(0.0, 0.04),
    "loss_type": _one_of("grpo", "dapo", "dr_grpo", "bnpo", "sapo", "cispo", "luspo", "vespo"),
    "scale_rewards": _one_of("group", "none", "batch", True, False),
    "epsilon": _one_of(0.2, 0.1),
    "epsilon_high": _one_of(None, 0.28),
    "delta": _one_of(None, 1.5),
    "num_iterations": _one_of(1, 2),
    "optimizer_steps_per_generation": _one_of(1, 2),
    "importance_sampling_level": _one_of("token", "sequence"),
    "mask_truncated_completions": _one_of(False, True),
    "top_entropy_quantile": _one_of(1.0, 0.2),
    "use_bias_correction_kl": _one_of(False, True),
    "multi_objective_aggregation": _one_of("sum_then_normalize", "normalize_then_sum"),
}
TRAINING = {
    "prompts_per_step": _between(1, 24),
    "max_steps": _one_of(10, 500),
    "num_train_epochs": _one_of(3.0, 1.0),
    "learning_rate": _one_of(1e-6, 1e-4),
    "lr_scheduler_type": _one_of("linear", "cosine", "constant_with_warmup"),
    "warmup_steps": _one_of(0, 10, 0.1),
    "optim": _one_of("adamw_torch_fused", "adamw_torch", "sgd"),
    "weight_decay": _one_of(0.0, 0.01),
    "adam_beta2": _one_of(0.999, 0.95),
    "max_grad_norm": _one_of(1.0, 0.2),
    "gradient_checkpointing": _one_of(True, False),
    "shuffle_dataset": _one_of(True, False),
    "save_steps": _one_of(100, 0),
    "save_total_limit": _one_of(None, 2),
}
LORA = {
    "r": _one_of(16, 4),
    "lora_alpha": _one_of(32, 8),
    "lora_dropout": _one_of(0.0, 0.05),
    "target_modules": _one_of("all-linear", ["q_proj", "v_proj"]),
}
TRL = {
    "disable_dropout": _one_of(False, True),
    "cast_lm_head_to_fp32": _one_of(False, True),
    "sync_ref_model": _one_of(False, True),
    "entropy_coef": _one_of(0.0, 0.01),
    "off_policy_mask_threshold": _one_of(None, 1.0),
    "label_smoothing_factor": _one_of(0.0, 0.1),
    "data_seed": _one_of(None, 7),
    "dataloader_num_workers": _one_of(0, 1),
    "router_aux_loss_coef": _one_of(None, 0.0),
}
LOGGING = {"logging_steps": _one_of(1, 10), "log_completions": _one_of(False, True)}


def _section(choices: dict[str, Choice], draw: random.Random) -> Values:
    """Some keys of a section; the others are left to the format."""
    return {key: choice(draw) for key, choice in choices.items() if draw.random() < 0.5}


def _rewards(draw: random.Random) -> list[Values]:
    options = {"completion_length": {"max_characters": 20}, "exact_match": {}}
    names = draw.sample(sorted(options), draw.randint(1, 2))
    return [{"name": name, "weight": draw.choice([1.0, 1.0, 0.5]), "options": options[name]} for name in names]


def random_recipe(draw: random.Random) -> Values:
    """The values of one recipe. Most are valid; who needs only those asks the newest release."""
    processes = draw.choice([1, 1, 1, 2, 4])
    strategies = ["auto", "single"] if processes == 1 else ["auto", "ddp", "zero1", "zero2", "zero3"]
    values: Values = {
        "recipe": 1,
        "name": "random",
        "seed": draw.randint(0, 99),
        "model": {"model_name_or_path": "Qwen/Qwen2-0.5B-Instruct", **_section(MODEL, draw)},
        "dataset": {"path": "owner/data", "prompt": "{{ question }}", "columns": {"solution": "{{ answer }}"}},
        "rewards": _rewards(draw),
        "generation": _section(GENERATION, draw),
        "grpo": {"loss_type": "grpo", **_section(GRPO, draw)},
        "training": {**_section(TRAINING, draw), "prompts_per_step": draw.randint(1, 24)},
        "distributed": {"strategy": draw.choice(strategies)},
        "launch": {"num_processes": processes},
        "logging": _section(LOGGING, draw),
        "trl": {key: value for key, value in _section(TRL, draw).items() if draw.random() < 0.3},
    }
    if draw.random() < 0.3:
        values["evaluation"] = {"path": "owner/other", "split": "test", "greedy": draw.random() < 0.5}
    if draw.random() < 0.5:
        values["lora"] = _section(LORA, draw)
        if draw.random() < 0.4:
            values["quantization"] = {draw.choice(["load_in_4bit", "load_in_8bit"]): True}
    if draw.random() < 0.3:
        values["training"]["per_device_train_batch_size"] = values["grpo"].get("num_generations", 8)
    return values


def valid_recipes(folder: Path, count: int, seed: int) -> Iterator[tuple[Source, Values]]:
    """Recipes that the newest release takes, read from a file as a user's are."""
    draw, made = random.Random(seed), 0
    while made < count:
        values = random_recipe(draw)
        path = folder / f"{seed}.yaml"
        path.write_text(json.dumps(values), encoding="utf-8")
        source, findings = compose(str(path))
        assert source is not None, findings
        if not resolve_source(source, NEWEST).refused:
            made += 1
            yield source, values
