"""The trainer of the plan, built from its arguments and nothing else."""

import os
from pathlib import Path
from typing import Any

from peft import LoraConfig
from transformers import AutoProcessor, BitsAndBytesConfig, PrinterCallback, ProgressCallback
from trl import GRPOConfig, GRPOTrainer

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.library import awaited
from grpo_recipes.worker._shared.planned import ON_OWN_DEVICE, model_path, model_revision, trust_remote_code
from grpo_recipes.worker.serving.address import server_arguments
from grpo_recipes.worker.trainer.continued_adapter import go_on_with
from grpo_recipes.worker.trainer.seeds import seeded_adapter
from grpo_recipes.worker.vllm.engine import planned_engine, seed_generations

# In model_init_kwargs of a plan: each process loads the whole model onto its own device.


def training_arguments(plan: Plan, folder: Path) -> Any:
    """The GRPOConfig of the plan. Building it sets up the processes of the run."""
    return GRPOConfig(
        output_dir=str(folder / "checkpoints"),
        model_init_kwargs=_model_init_kwargs(plan),
        **_with_ids_as_numbers(
            {**plan.arguments.GRPOConfig, **server_arguments(plan, GRPOConfig.__dataclass_fields__)}
        ),
    )


def _with_ids_as_numbers(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments with the tokens of vLLM's logit_bias as it takes them; a plan has text for the keys of a map."""
    kwargs = arguments.get("generation_kwargs") or {}
    if "logit_bias" not in kwargs:
        return arguments
    bias = {int(token): value for token, value in kwargs["logit_bias"].items()}
    return {**arguments, "generation_kwargs": {**kwargs, "logit_bias": bias}}


def build_trainer(
    plan: Plan, arguments: Any, rows: Any, rewards: list[Any], folder: Path, turns: dict[str, Any] | None = None
) -> Any:
    """The GRPOTrainer of the plan, with the model loaded; it prints neither bars nor mappings.

    turns: what it takes for completions of several turns; nothing where the plan has none of it.
    """
    lora = plan.arguments.LoraConfig
    path = model_path(plan, folder)
    with seeded_adapter(plan.arguments.GRPOConfig["seed"]), planned_engine(plan):  # type: ignore[arg-type]
        trainer = GRPOTrainer(
            model=path,
            reward_funcs=[awaited(reward) for reward in rewards],
            args=arguments,
            train_dataset=rows,
            processing_class=_tokenizer(plan, path),
            peft_config=None if lora is None else LoraConfig(**lora),
            **_quantization(plan, arguments),
            **(turns or {}),
        )
    if plan.ancestor is not None and plan.ancestor.use == "continue":
        go_on_with(trainer, plan.ancestor)
    seed_generations(trainer)
    for printing in (PrinterCallback, ProgressCallback):
        trainer.remove_callback(printing)
    return trainer


def _quantization(plan: Plan, arguments: Any) -> dict[str, Any]:
    """The trainer's keyword for quantization; releases without it find the configuration in the arguments."""
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


def _tokenizer(plan: Plan, path: str) -> Any:
    """The model's tokenizer, or its processor if it has one, with the recipe's chat template.

    As TRL loads it by itself in its newest release; older ones pad otherwise, or not at all.
    Source: trl 1.16.0 grpo_trainer.py.
    """
    processing = AutoProcessor.from_pretrained(
        path,
        revision=model_revision(plan),
        truncation_side="left",
        padding_side="left",
        trust_remote_code=trust_remote_code(plan),
    )
    tokenizer = getattr(processing, "tokenizer", processing)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    if tokenizer is processing:
        # Older releases hand everything that the tokenizer gives to generate, which refuses these.
        tokenizer.model_input_names = [name for name in tokenizer.model_input_names if name != "token_type_ids"]
    if plan.tokenizer.chat_template_path is not None:
        processing.chat_template = Path(plan.tokenizer.chat_template_path).read_text(encoding="utf-8")
    return processing
