"""Which functions of the newest stack are walked for what they refuse and warn of, by area.

A name stands for that function or class and everything inside it; "" stands for the whole file.
"""

from grpo_recipes.stack.tested import read_tested_stack

RELEASES = {name: read_tested_stack().packages[name] for name in ("trl", "transformers", "peft", "accelerate")}

WALKED: dict[str, dict[str, tuple[str, ...]]] = {
    "trl": {
        "trl/trainer/grpo_config.py": ("",),
        "trl/trainer/base_config.py": ("",),
        "trl/trainer/grpo_trainer.py": ("",),
        "trl/trainer/base_trainer.py": ("",),
        "trl/trainer/utils.py": (
            "pad",
            "selective_log_softmax",
            "selective_log_softmax_and_entropy",
            "print_prompt_completions_sample",
            "split_pixel_values_by_grid",
            "create_model_from_path",
            "use_adapter",
        ),
        "trl/models/utils.py": ("remove_hooks", "add_hooks", "prepare_fsdp"),
        "trl/data_utils.py": ("prepare_multimodal_messages", "apply_chat_template"),
        "trl/chat_template_utils.py": (
            "add_response_schema",
            "get_training_chat_template",
            "_validate_tool_calls",
            "parse_response",
        ),
        "trl/import_utils.py": ("",),
    },
    "vllm": {
        "trl/generation/vllm_generation.py": ("",),
        "trl/generation/vllm_client.py": ("VLLMClient",),
    },
    "training": {
        "transformers/training_args.py": (
            "TrainingArguments.__post_init__",
            "TrainingArguments._validate_args",
            "TrainingArguments._setup_devices",
            "TrainingArguments._process_fsdp_args",
            "TrainingArguments._apply_legacy_fsdp_to_config",
        ),
        "transformers/trainer.py": (
            "Trainer.__init__",
            "Trainer._validate_args",
            "Trainer._build_accelerator_args",
            "Trainer.create_accelerator_and_postprocess",
            "Trainer.get_optimizer_cls_and_kwargs",
        ),
        "transformers/trainer_optimizer.py": ("",),
        "transformers/integrations/deepspeed.py": ("",),
        "accelerate/utils/dataclasses.py": ("DeepSpeedPlugin", "FullyShardedDataParallelPlugin"),
        "accelerate/utils/deepspeed.py": ("",),
        "accelerate/accelerator.py": ("Accelerator._prepare_deepspeed", "Accelerator._prepare_fsdp2"),
        "accelerate/state.py": ("PartialState.__init__", "AcceleratorState.__init__"),
        "accelerate/commands/launch.py": (
            "simple_launcher",
            "multi_gpu_launcher",
            "deepspeed_launcher",
            "_validate_launch_command",
        ),
        "accelerate/utils/launch.py": (
            "prepare_simple_launcher_cmd_env",
            "prepare_multi_gpu_env",
            "prepare_deepspeed_cmd_env",
        ),
    },
    "model": {
        "peft/tuners/lora/config.py": ("LoraConfig", "_get_lora_subconfig"),
        "transformers/utils/quantization_config.py": ("BitsAndBytesConfig",),
        "transformers/quantizers/quantizer_bnb_4bit.py": ("",),
        "transformers/quantizers/quantizer_bnb_8bit.py": ("",),
        "transformers/trainer_utils.py": ("validate_quantization_for_training",),
    },
}
