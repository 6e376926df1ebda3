"""What part of an experiment a value belongs to, by the key that a user writes for it."""

from collections.abc import Mapping

from grpo_recipes.facts.classified import classified_fields

GROUPS = (
    "algorithm",
    "data",
    "reward",
    "sampling",
    "effective batch",
    "precision",
    "optimizer",
    "model",
    "randomness",
    "other",
)
"""In the order in which differences are shown."""

SECTIONS = {
    "grpo": "algorithm",
    "dataset": "data",
    "rewards": "reward",
    "tools": "sampling",
    "environment": "sampling",
    "rollout": "sampling",
    "generation": "sampling",
    "quantization": "precision",
    "training": "optimizer",
    "evaluation": "optimizer",
    "model": "model",
    "tokenizer": "model",
    "lora": "model",
    "ancestor": "model",
    "stage": "algorithm",
    "seed": "randomness",
}
# Where the section says something else than the key; GRPOConfig fields without a section of their own by their names.
KEYS: Mapping[str, str] = {
    "model.dtype": "precision",
    "training.bf16": "precision",
    "training.fp16": "precision",
    "training.shuffle_dataset": "data",
    "grpo.num_generations": "effective batch",
    "grpo.optimizer_steps_per_generation": "effective batch",
    "training.prompts_per_step": "effective batch",
    "training.cut.processes": "effective batch",
    "training.cut.per_device_train_batch_size": "effective batch",
} | {
    name: group
    for group, names in {
        "algorithm": "disable_dropout off_policy_mask_threshold router_aux_loss_coef sync_ref_model"
        " use_adaptive_entropy",
        "data": "dataloader_drop_last ignore_data_skip length_column_name remove_unused_columns"
        " train_sampling_strategy",
        "reward": "reward_weights",
        "sampling": "generation_kwargs max_tool_calling_iterations",
        "effective batch": "generation_batch_size steps_per_generation",
        "precision": "tf32 cast_lm_head_to_fp32",
        "optimizer": "optim_args optim_target_modules label_smoothing_factor neftune_noise_alpha",
        "model": "model_init_kwargs trust_remote_code",
        "randomness": "full_determinism data_seed",
    }.items()
    for name in names.split()
}
# The same for fields that share the beginning of their names.
BEGINNINGS = {
    "sapo_": "algorithm",
    "vespo_": "algorithm",
    "ref_model_": "algorithm",
    "entropy_": "algorithm",
    "vllm_importance_sampling_": "algorithm",
    "vllm_structured_outputs_": "sampling",
}


def group_of(key: str) -> str:
    """The group of a key of an experiment: grpo.beta, trl.entropy_coef, GRPOConfig.seed, rewards.accuracy.weight."""
    section, _, name = key.partition(".")
    field = classified_fields().get(name) if section in ("trl", "GRPOConfig") else None
    if field is not None and field.home is not None:
        return group_of(field.home)
    whole = name if field is not None else key
    if whole in KEYS:
        return KEYS[whole]
    beginning = next((start for start in BEGINNINGS if field is not None and name.startswith(start)), None)
    return BEGINNINGS[beginning] if beginning else SECTIONS.get(section, "other")
