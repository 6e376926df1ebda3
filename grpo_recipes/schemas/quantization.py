"""`quantization`: fields of transformers' BitsAndBytesConfig."""

from typing import Literal

from grpo_recipes.schemas.section import OpenSection


class QuantizationSection(OpenSection):
    """How the frozen base model is quantized; any BitsAndBytesConfig field. Without this section: not quantized."""

    load_in_4bit: bool = False
    """Load the weights of linear layers in 4 bits."""
    load_in_8bit: bool = False
    """Load the weights of linear layers in 8 bits (LLM.int8)."""
    bnb_4bit_quant_type: Literal["fp4", "nf4"] = "fp4"
    """4-bit number format. fp4 is BitsAndBytesConfig's default; QLoRA uses nf4."""
    bnb_4bit_use_double_quant: bool = False
    """Also quantize the quantization constants, which saves about 0.4 bits per weight."""
    bnb_4bit_compute_dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    """Data type of the matrix products."""
