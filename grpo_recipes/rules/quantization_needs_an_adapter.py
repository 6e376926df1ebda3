"""A quantized model is trained through an adapter.

transformers refuses to train a purely quantized model ("You cannot perform fine-tuning on purely quantized models"),
but only when it builds the Trainer, after loading the model.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import is_quantized

ID = "QNT001"


def check(context: Context) -> Iterator[Finding]:
    if is_quantized(context) and not context.has_section("lora"):
        message = "a quantized model cannot be trained without an adapter"
        because = "transformers raises ValueError for purely quantized models, after loading the model"
        yield context.wrong(message, "quantization", because, {"r": 16, "lora_alpha": 32}, at=("lora",))
