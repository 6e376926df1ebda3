"""The trainer of the plan, built from its arguments and nothing else."""

import os
from pathlib import Path
from typing import Any

from peft import LoraConfig
from transformers import AutoTokenizer, BitsAndBytesConfig, PrinterCallback, ProgressCallback
from trl import GRPOConfig, GRPOTrainer

from grpo_recipes.worker.planned import Plan

# In model_init_kwargs of a plan: each process loads the whole model onto its own device.
ON_OWN_DEVICE = "local_rank"


def extended_model_folder(folder: Path) -> Path:
    """Where the model with added tokens lies in a run folder."""
    return folder / "extended_model"


def training_arguments(plan: Plan, folder: Path) -> Any:
    """The GRPOConfig of the plan. Building it sets up the processes of the run."""
    return GRPOConfig(
        output_dir=str(folder / "checkpoints"),
        model_init_kwargs=_model_init_kwargs(plan),
        **plan.arguments.GRPOConfig,
    )


def build_trainer(plan: Plan, arguments: Any, rows: Any, rewards: list[Any], folder: Path) -> Any:
    """The GRPOTrainer of the plan, with the model loaded; it prints neither bars nor mappings."""
    lora, quantization = plan.arguments.LoraConfig, plan.arguments.BitsAndBytesConfig
    path = str(extended_model_folder(folder)) if plan.tokenizer.add_tokens else plan.model.path
    trainer = GRPOTrainer(
        model=path,
        reward_funcs=rewards,
        args=arguments,
        train_dataset=rows,
        processing_class=_tokenizer(plan, path),
        peft_config=None if lora is None else LoraConfig(**lora),
        quantization_config=None if quantization is None else BitsAndBytesConfig(**quantization),
    )
    for printing in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(printing)
    return trainer


def _model_init_kwargs(plan: Plan) -> dict[str, Any]:
    keywords = dict(plan.arguments.model_init_kwargs)
    if keywords.get("device_map") == ON_OWN_DEVICE:
        keywords["device_map"] = {"": int(os.environ.get("LOCAL_RANK", "0")) if plan.world.device == "cuda" else "cpu"}
    if plan.tokenizer.add_tokens:
        keywords.pop("revision", None)
    elif plan.model.revision is not None:
        keywords["revision"] = plan.model.revision
    return keywords


def _tokenizer(plan: Plan, path: str) -> Any:
    """The model's tokenizer with the recipe's chat template; None lets TRL load the model's own."""
    if plan.tokenizer.chat_template_path is None:
        return None
    tokenizer = AutoTokenizer.from_pretrained(
        path,
        revision=None if plan.tokenizer.add_tokens else plan.model.revision,
        truncation_side="left",
        padding_side="left",
        trust_remote_code=plan.arguments.GRPOConfig.get("trust_remote_code", False),
    )
    tokenizer.chat_template = Path(plan.tokenizer.chat_template_path).read_text(encoding="utf-8")
    return tokenizer
