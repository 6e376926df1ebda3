"""Builds the plan's trainer, from the plan's arguments only."""

import os
from datetime import timedelta
from pathlib import Path
from typing import Any

from peft import LoraConfig
from torch.distributed import distributed_c10d
from transformers import (
    AutoProcessor,
    AutoTokenizer,
    BitsAndBytesConfig,
    PrinterCallback,
    ProgressCallback,
)
from trl import GRPOConfig

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.library import as_synchronous, base_model, gather_output_layer_with_its_norm
from grpo_recipes.worker._shared.planned import (
    ON_OWN_DEVICE,
    model_path,
    model_revision,
    trust_remote_code,
)
from grpo_recipes.worker._shared.replacing import replace
from grpo_recipes.worker.data.images import decoding
from grpo_recipes.worker.data.templates import refuse_endless_template
from grpo_recipes.worker.model.adapters import refuse_costly_adapter
from grpo_recipes.worker.model.continued_adapter import continue_adapter
from grpo_recipes.worker.model.saved_names import save_by_the_names_of_its_files
from grpo_recipes.worker.model.seeds import seeded_adapter
from grpo_recipes.worker.serving.health import server_arguments
from grpo_recipes.worker.trainer.observed import ObservedTrainer
from grpo_recipes.worker.vllm.engine import build_as_planned, seed_generations


def training_arguments(plan: Plan, folder: Path) -> Any:
    """Returns the plan's GRPOConfig. Building it sets up the run's processes."""
    return GRPOConfig(
        output_dir=str(folder / "checkpoints"),
        model_init_kwargs=_model_init_kwargs(plan),
        **_with_ids_as_numbers(
            {**plan.arguments.GRPOConfig, **server_arguments(plan, GRPOConfig.__dataclass_fields__)}
        ),
    )


def _with_ids_as_numbers(arguments: dict[str, Any]) -> dict[str, Any]:
    """Returns the arguments with integer tokens in vLLM's logit_bias; a plan's map has text keys."""
    kwargs = arguments.get("generation_kwargs") or {}
    if "logit_bias" not in kwargs:
        return arguments
    bias = {int(token): value for token, value in kwargs["logit_bias"].items()}
    return {**arguments, "generation_kwargs": {**kwargs, "logit_bias": bias}}


def build_trainer(
    plan: Plan, arguments: Any, rows: Any, rewards: list[Any], folder: Path, turns: dict[str, Any] | None = None
) -> Any:
    """Returns the plan's GRPOTrainer, with the model loaded and without progress bars and tables.

    turns: its arguments for multi-turn completions; empty if the plan has none.
    """
    lora = plan.arguments.LoraConfig
    if lora is not None:
        refuse_costly_adapter(lora, "lora: ")
    path = model_path(plan, folder)
    gather_output_layer_with_its_norm()
    with seeded_adapter(plan.arguments.GRPOConfig["seed"]), build_as_planned(plan, folder):  # type: ignore[arg-type]
        trainer = ObservedTrainer(
            model=path,
            reward_funcs=[as_synchronous(reward) for reward in rewards],
            args=arguments,
            train_dataset=decoding(rows),
            processing_class=planned_processing(plan, path),
            peft_config=None if lora is None else LoraConfig(**lora),
            **_quantization(plan, arguments),
            **(turns or {}),
        )
    if plan.ancestor is not None and plan.ancestor.use == "continue":
        continue_adapter(trainer, plan.ancestor)
    seed_generations(trainer)
    save_by_the_names_of_its_files(base_model(trainer, trainer.model))
    for printing in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(printing)
    return trainer


def _quantization(plan: Plan, arguments: Any) -> dict[str, Any]:
    """Returns the trainer's keyword for quantization; releases without it read the arguments."""
    if plan.arguments.BitsAndBytesConfig is None:
        return {}
    configuration = BitsAndBytesConfig(**plan.arguments.BitsAndBytesConfig)
    if plan.arguments.quantization_config_in == "GRPOTrainer":
        return {"quantization_config": configuration}
    arguments.model_init_kwargs["quantization_config"] = configuration
    return {}


def _model_init_kwargs(plan: Plan) -> dict[str, Any]:
    keywords = dict(plan.arguments.model_init_kwargs)
    if keywords.get("device_map") == ON_OWN_DEVICE:
        keywords["device_map"] = {"": int(os.environ.get("LOCAL_RANK", "0")) if plan.world.device == "cuda" else "cpu"}
    if plan.trains_a_copy:
        keywords.pop("revision", None)
    elif (revision := model_revision(plan)) is not None:
        keywords["revision"] = revision
    return keywords


def processing_of(plan: Plan, path: str, **origin: Any) -> Any:
    """Loads a model's tokenizer, or its processor, with the padding that generation needs. Raises Refused."""
    origin |= {"truncation_side": "left", "padding_side": "left", "trust_remote_code": trust_remote_code(plan)}
    try:
        processing = AutoProcessor.from_pretrained(path, **origin)
    except (OSError, ValueError):
        # Before transformers 5 this reads config.json, which a trained adapter's folder does not have.
        processing = AutoTokenizer.from_pretrained(path, **origin)
    tokenizer = getattr(processing, "tokenizer", processing)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    refuse_endless_template(processing)
    return processing


def planned_processing(plan: Plan, path: str) -> Any:
    """Returns the model's tokenizer, or its processor if it has one, with the recipe's chat template.

    Loaded as in the newest TRL; older ones pad differently, or not at all. Source: trl's grpo_trainer.py.
    """
    processing = processing_of(plan, path, revision=model_revision(plan))
    tokenizer = getattr(processing, "tokenizer", processing)
    if tokenizer is processing:
        # Older releases pass everything that the tokenizer returns to generate, which refuses these.
        tokenizer.model_input_names = [name for name in tokenizer.model_input_names if name != "token_type_ids"]
    if plan.tokenizer.chat_template_path is not None:
        processing.chat_template = Path(plan.tokenizer.chat_template_path).read_text(encoding="utf-8")
        refuse_endless_template(processing)
    return processing


def wait_as_planned(arguments: dict[str, Any]) -> None:
    """Gives every process group created from now on the planned ddp_timeout, unless its creator sets one.

    transformers 5.23 passes ddp_timeout on only for GPUs, and only to the first group: DeepSpeed copies that one,
    FSDP's mesh creates its own, both with torch's default of 10 minutes for NCCL and 30 for gloo. Source: torch's
    distributed_c10d.py `_get_default_timeout`, in every release since 2.6.
    """
    seconds = arguments.get("ddp_timeout")
    if seconds is not None:
        replace(distributed_c10d, "default_pg_timeout", timedelta(seconds=seconds))
        replace(distributed_c10d, "default_pg_nccl_timeout", timedelta(seconds=seconds))
