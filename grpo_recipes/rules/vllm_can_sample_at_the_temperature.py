"""vLLM can sample at the recipe's temperature.

vLLM accepts temperatures up to 2. Above that it raises VLLMValidationError at the first generation, after loading the
model; transformers accepts any temperature.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context

ID = "GEN012"
APPLIES_TO = {"vllm": ">=0.31"}
TEMPERATURE, USE_VLLM = "GRPOConfig.temperature", "GRPOConfig.use_vllm"
MOST = 2.0


def check(context: Context) -> Iterator[Finding]:
    temperature = context.value(TEMPERATURE)
    if context.value(USE_VLLM) is not True or not isinstance(temperature, int | float) or temperature <= MOST:
        return
    yield context.wrong(
        f"vLLM cannot sample at temperature {temperature:g}",
        TEMPERATURE,
        [
            f"SamplingParams raises VLLMValidationError above {MOST:g}, at the first generation",
            f"use_vllm is true: {context.origin(USE_VLLM)}",
        ],
        False,
        at=("generation", "use_vllm"),
        fix=f"temperature: {MOST:g}, or use_vllm: false",
    )
