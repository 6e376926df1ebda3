"""What other programs call the keys and sections of the format."""

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

# What a key without its prefix means in a section that has the prefixed one.
NAMES_WITHIN = {("generation", "gpu_memory_utilization"): "generation.vllm_gpu_memory_utilization"}

# What libraries have and no recipe says: why, and what to write instead.
DECIDED = {
    "device_map": (
        "grpo-run loads the model onto the device of each process; device_map would spread its layers over GPUs",
        "; a model that one GPU does not hold: distributed: {strategy: zero3}, or fsdp2",
    ),
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
