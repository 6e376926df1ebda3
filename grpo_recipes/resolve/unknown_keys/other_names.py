"""What other programs call the keys and sections of the format."""

from grpo_recipes.contract.findings.finding import Finding, Path, dotted
from grpo_recipes.yaml.compose import Source

# What other programs call a key of the format: TRL's command line, PEFT's articles, older transformers, verl, axolotl,
# OpenRLHF, LLaMA-Factory.
OTHER_NAMES = {
    "alpha": "lora.lora_alpha",
    "base_model": "model.model_name_or_path",
    "clip_range": "grpo.epsilon",
    "clip_ratio": "grpo.epsilon",
    "clip_ratio_high": "grpo.epsilon_high",
    "clip_ratio_low": "grpo.epsilon",
    "cliprange": "grpo.epsilon",
    "dataset_config": "dataset.name",
    "dataset_name": "dataset.path",
    "dataset_train_split": "dataset.split",
    "dropout": "lora.lora_dropout",
    "epochs": "training.num_train_epochs",
    "eps_clip": "grpo.epsilon",
    "group_size": "grpo.num_generations",
    "kl_coef": "grpo.beta",
    "kl_loss_coef": "grpo.beta",
    "lora_r": "lora.r",
    "lora_target": "lora.target_modules",
    "lora_target_modules": "lora.target_modules",
    "lr": "training.learning_rate",
    "max_new_tokens": "generation.max_completion_length",
    "max_response_length": "generation.max_completion_length",
    "micro_batch_size": "training.per_device_train_batch_size",
    "model_name": "model.model_name_or_path",
    "n_samples_per_prompt": "grpo.num_generations",
    "num_epochs": "training.num_train_epochs",
    "num_return_sequences": "grpo.num_generations",
    "rank": "lora.r",
    "reward_funcs": "rewards",
    "rollout_n": "grpo.num_generations",
    "stop_strings": "generation.stop",
    "torch_dtype": "model.dtype",
}

# What a key means in one section alone, mostly without the prefix that the format writes.
NAMES_WITHIN = {
    ("generation", "gpu_memory_utilization"): "generation.vllm_gpu_memory_utilization",
    **{("model", name): "model.model_name_or_path" for name in ("id", "model", "model_id", "name", "path", "repo_id")},
}

# What libraries have and no recipe says: why, and what to write instead.
DECIDED = {
    "device_map": (
        "grpo-run loads the model onto the device of each process; device_map would spread its layers over GPUs",
        "; a model that one GPU does not hold: distributed: {strategy: zero3}, or fsdp2",
    ),
}

# What means one thing in one program and another in the next: nobody but the user knows which number it is.
SEVERAL_MEANINGS = dict.fromkeys(
    ("batch_size", "train_batch_size", "global_batch_size", "mini_batch_size", "rollout_batch_size"),
    "prompts_per_step: prompts of an optimizer step, all GPUs together; or per_device_train_batch_size: completions of "
    "one forward pass on each of them",
)

PROMPTS: Path = ("training", "prompts_per_step")
# What follows from the prompts of a step, and is written under `trl` only without them.
DERIVED = {
    "gradient_accumulation_steps": "the accumulation, with the processes and the micro-batch",
    "steps_per_generation": "the generations, with grpo.optimizer_steps_per_generation",
    "generation_batch_size": "the generations, with grpo.optimizer_steps_per_generation",
}

# What other programs call a section.
OTHER_SECTIONS = {
    "bitsandbytes": "quantization",
    "bnb": "quantization",
    "data": "dataset",
    "lora_config": "lora",
    "peft": "lora",
    "peft_config": "lora",
    "quantization_config": "quantization",
    "sampling": "generation",
}


def several_meanings(path: Path, where: str, rule: str, source: Source) -> Finding | None:
    """The finding for a key whose number only the user can place; nothing is written for it."""
    name = str(path[-1])
    if name not in SEVERAL_MEANINGS:
        return None
    because = ("programs that have it count prompts with it, or completions, on all GPUs or on each",)
    message = f"{where} has no key {name}"
    fix = SEVERAL_MEANINGS[name]
    return Finding(rule, "error", message, dotted(path), source.mark(path), because=because, fix=fix)
