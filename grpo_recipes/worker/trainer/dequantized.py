"""The base of a quantized policy as vLLM loads it: the numbers that the quantized weights stand for.

The trainer multiplies by the same numbers: in float32 both gave the same logits, to the last bit.
"""

from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig

from grpo_recipes.contract.plan import Plan
from grpo_recipes.worker._shared.planned import (
    dequantized_folder,
    dtype_keyword,
    model_path,
    model_revision,
    trust_remote_code,
)
from grpo_recipes.worker.trainer.own_model import write_model


def write_dequantized(plan: Plan, folder: Path) -> None:
    """Writes it into a run folder in vLLM's data type, if it is not yet there. It is made in the machine's memory."""
    write_model(dequantized_folder(folder), lambda: _dequantized(plan, model_path(plan, folder)))


def _dequantized(plan: Plan, path: str) -> tuple[Any, Any]:
    assert plan.vllm is not None and plan.arguments.BitsAndBytesConfig is not None
    origin = {"revision": model_revision(plan), "trust_remote_code": trust_remote_code(plan)}
    quantization = BitsAndBytesConfig(**plan.arguments.BitsAndBytesConfig)
    packed = AutoModelForCausalLM.from_pretrained(
        path, quantization_config=quantization, device_map={"": "cpu"}, **dtype_keyword(plan), **origin
    )
    print("the model is dequantized for vLLM, into the run folder", flush=True)
    return AutoTokenizer.from_pretrained(path, **origin), packed.dequantize().to(getattr(torch, plan.vllm.dtype))
