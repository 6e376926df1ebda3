"""Failure 2 with TRL alone: a 4-bit model, with bitsandbytes' kernels for the CPU."""

from pathlib import Path
from types import TracebackType
from typing import Any

from raw_checkpointing import lora
from raw_trl import grpo_config, model_folder, trainer


def load(folder: Path) -> Any:
    """Loads the tiny model as nf4; gives how many 4-bit tensors it has. Raises what this release raises on a CPU."""
    return len(_four_bit(_quantized(folder)))


def _four_bit(model: Any) -> list[Any]:
    return [p for p in model.parameters() if type(p).__name__ == "Params4bit"]


def _quantized(folder: Path) -> Any:
    import torch
    from transformers import AutoModelForCausalLM, BitsAndBytesConfig

    settings = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_compute_dtype=torch.float32)
    return AutoModelForCausalLM.from_pretrained(model_folder(folder), quantization_config=settings)


def _let_the_cpu_pass() -> None:
    """Answers for a CPU with intel_extension_for_pytorch where transformers asks.

    4.48 to 4.52 refuse bitsandbytes on every other CPU; by now it has kernels for any. A GPU, for which the CPU stands
    in here, is not asked.
    """
    from transformers.integrations import bitsandbytes

    if hasattr(bitsandbytes, "is_ipex_available"):
        bitsandbytes.is_ipex_available = lambda: True


def _kind(model: Any) -> str:
    """What a reference model is: "none", "quantized" or "full precision"."""
    if model is None:
        return "none"
    return "quantized" if _four_bit(model) else "full precision"


def _half_built(traceback: TracebackType | None) -> Any:
    """The trainer whose __init__ raised, from its frame."""
    while traceback is not None:
        if traceback.tb_frame.f_code.co_qualname == "GRPOTrainer.__init__":
            return traceback.tb_frame.f_locals["self"]
        traceback = traceback.tb_next
    return None


def train(folder: Path, *, adapter: str, beta: float) -> dict[str, Any]:
    """Two steps of an nf4 model. adapter: "" is without one, "config" through peft_config, "instance" a PeftModel.

    Gives the reference model's kind, lora_B matrices in all and not zero any more, and the error where one was raised.
    """
    from peft import get_peft_model

    _let_the_cpu_pass()
    model, config = _quantized(folder), grpo_config(folder, beta=beta)
    parts = {"peft_config": lora()} if adapter == "config" else {}
    try:
        made = trainer(config, get_peft_model(model, lora()) if adapter == "instance" else model, **parts)
    except ValueError as error:
        half = _half_built(error.__traceback__)
        return {"reference": _kind(getattr(half, "ref_model", None)), "error": f"{type(error).__name__}: {error}"}
    made.train()
    matrices = [p for name, p in made.model.named_parameters() if "lora_B" in name and p.requires_grad]
    moved = sum(bool(matrix.any()) for matrix in matrices)
    return {"reference": _kind(made.ref_model), "all": len(matrices), "moved": moved, "error": ""}
