"""Builds the plan's trainer, from the plan's arguments only."""

import functools
import os
import random
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy
import torch
from peft import LoraConfig, PeftModel
from torch.distributed import distributed_c10d
from transformers import (
    AutoModelForCausalLM,
    AutoProcessor,
    AutoTokenizer,
    BitsAndBytesConfig,
    GenerationConfig,
    PrinterCallback,
    ProgressCallback,
    TrainerCallback,
    set_seed,
)
from transformers.utils import GENERATION_CONFIG_NAME
from trl import GRPOConfig

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.library import as_synchronous, base_model, gather_output_layer_with_its_norm, seed_of
from grpo_recipes.worker._shared.planned import (
    ON_OWN_DEVICE,
    dequantized_folder,
    dtype_keyword,
    model_path,
    model_revision,
    own_model_folder,
    trust_remote_code,
)
from grpo_recipes.worker._shared.replacing import replace, replace_temporarily
from grpo_recipes.worker.data.images import decoding
from grpo_recipes.worker.data.templates import refuse_endless_template
from grpo_recipes.worker.model.adapters import refuse_costly_adapter
from grpo_recipes.worker.model.own_model import continue_adapter, write_model, write_own_model
from grpo_recipes.worker.model.saved_names import save_by_the_names_of_its_files
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


# Random numbers of a recipe, the same in every release.
#
# Format 1 of the recipe specifies: the adapter's initial weights are drawn from `seed`, and before each optimizer step
# the generators of python, numpy and torch are set from `seed`, the step's number (from 0) and the rank. Otherwise the
# completions of one recipe would differ after the first step, since releases draw different numbers between two
# steps, and a resumed run would continue with different numbers than an uninterrupted one.


def seed_of_step(seed: int, step: int, rank: int) -> int:
    """Returns the 32-bit seed of an optimizer step on one process, from a sha256, so that seeds are unrelated."""
    return seed_of(f"{seed} {step} {rank}")


class SeedEachStep(TrainerCallback):  # type: ignore[misc]
    """Seeds all generators before each optimizer step. rank: of this process among all."""

    def __init__(self, seed: int, rank: int) -> None:
        self._seed, self._rank = seed, rank

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Seeds before the step's prompts are answered."""
        seed_everything(seed_of_step(self._seed, state.global_step, self._rank))


@functools.cache
def _is_cpu_alone() -> bool:
    return hasattr(torch, "accelerator") and not torch.accelerator.is_available()


def seed_everything(seed: int) -> None:
    """Seeds all generators.

    If torch has no device but the CPU, there are three. torch.manual_seed would also record the calling line for device
    types that do not exist: 0.3 % of a step of the quickstart.
    """
    if not _is_cpu_alone():
        set_seed(seed)
        return
    random.seed(seed)
    numpy.random.seed(seed)
    torch.default_generator.manual_seed(seed)


@contextmanager
def seeded_adapter(seed: int) -> Iterator[None]:
    """Makes PEFT draw every adapter's initial weights from `seed` inside a with block."""
    build = PeftModel.__init__

    def seeded(self: Any, *given: Any, **named: Any) -> None:
        set_seed(seed)
        build(self, *given, **named)

    with replace_temporarily(PeftModel, "__init__", seeded):
        yield


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


# Keeps the model's own generation_config.json from changing the sampling.
#
# transformers 4.50 to 4.57 let the file override values that are passed explicitly, if these equal transformers' own
# defaults and the file was written by transformers 4.50 or newer; transformers 5 takes values that are missing or None
# from it (no_repeat_ngram_size, suppress_tokens, ...). So the live model has none of the file's values during training,
# and a saved model has all of them again.


# The meaning of the model's tokens and its cache layout: neither changes the sampling.
KEPT = ("bos_token_id", "eos_token_id", "pad_token_id", "cache_implementation")
NO_VALUES = ("transformers_version", "_from_model_config")


def set_aside(trainer: Any) -> dict[str, Any]:
    """Removes the sampling values of generation_config.json from the live model and returns them."""
    model = base_model(trainer, trainer.model)
    own = model.generation_config
    model.generation_config = GenerationConfig(**{name: getattr(own, name) for name in KEPT})
    _write_when_saved(model, own)
    values: dict[str, Any] = own.to_diff_dict()
    return {name: value for name, value in values.items() if name not in (*KEPT, *NO_VALUES)}


def _write_when_saved(model: Any, own: Any) -> None:
    """Makes the model write `own` with its weights, as text: transformers 4 cannot write some files that it reads."""
    text = own.to_json_string()
    write = model.save_pretrained

    def save_pretrained(save_directory: Any, *given: Any, **named: Any) -> None:
        write(save_directory, *given, **named)
        path = Path(save_directory) / GENERATION_CONFIG_NAME
        if path.exists():
            path.write_text(text, encoding="utf-8")

    replace(model, "save_pretrained", save_pretrained)


# The models that a run writes into its folder before training.
#
# One is the model that trainer and vLLM load, with new tokens or a merged adapter. The other is a quantized policy's
# dequantized base, for vLLM. The trainer multiplies by the same values: in float32 both gave the same logits, to the
# last bit.


def write_models(plan: Plan, folder: Path) -> None:
    """Writes the plan's models that do not exist yet. They are created in main memory, not on a GPU."""
    if plan.trains_a_copy:
        write_own_model(plan, own_model_folder(plan, folder))
    if plan.samples_a_copy:
        write_model(dequantized_folder(folder), lambda: _dequantize(plan, model_path(plan, folder)))


def _dequantize(plan: Plan, path: str) -> tuple[Any, Any]:
    assert plan.vllm is not None and plan.arguments.BitsAndBytesConfig is not None
    origin = {"revision": model_revision(plan), "trust_remote_code": trust_remote_code(plan)}
    quantization = BitsAndBytesConfig(**plan.arguments.BitsAndBytesConfig)
    packed = AutoModelForCausalLM.from_pretrained(
        path, quantization_config=quantization, device_map={"": "cpu"}, **dtype_keyword(plan), **origin
    )
    print("dequantizing the model for vLLM, into the run folder", flush=True)
    return AutoTokenizer.from_pretrained(path, **origin), packed.dequantize().to(getattr(torch, plan.vllm.dtype))
