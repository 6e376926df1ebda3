"""A section without keys counts as missing.

`lora:` with nothing below it is null in YAML, and null removes a section, so every weight is trained. Likewise an empty
`quantization:` quantizes nothing, and an empty `warm_start:` trains no step before GRPO. For an adapter with the
format's defaults, write a key or `lora: {}`.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context

ID = "LRA012"
MEANS = {
    "lora": ("every weight is trained, without an adapter", "lora: {}"),
    "quantization": ("nothing is quantized", "load_in_4bit: true below it"),
    "warm_start": ("GRPO starts from the model as it is", "steps, answer and learning_rate below it"),
}


def check(context: Context) -> Iterator[Finding]:
    for section, (means, instead) in MEANS.items():
        if section in context.source.values and context.source.values[section] is None:
            message = f"`{section}` is empty: {means}"
            because = "a key without a value is null in YAML, which removes the section"
            yield context.wrong(message, section, because, severity="warning", fix=f"{instead}, or remove it")
