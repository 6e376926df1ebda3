"""Writes the models that a run needs in its folder before training.

One is the model that trainer and vLLM load, with new tokens or a merged adapter. The other is a quantized policy's
dequantized base, for vLLM. The trainer multiplies by the same values: in float32 both gave the same logits, to the
last bit.
"""

from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    BitsAndBytesConfig,
)

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.planned import (
    dequantized_folder,
    dtype_keyword,
    model_path,
    model_revision,
    own_model_folder,
    trust_remote_code,
)
from grpo_recipes.worker.model.own_model import write_model, write_own_model


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
