"""A pattern for completions reaches whatever generates.

`vllm_structured_outputs_regex` keeps completions to a regular expression. vLLM alone can do so: where transformers
generates, TRL reads it nowhere, and the model answers as it likes.
"""

from collections.abc import Iterator

from grpo_recipes.finding import Finding, Patch
from grpo_recipes.rules.context import Context

ID = "GEN007"
PATTERN, USE_VLLM = "GRPOConfig.vllm_structured_outputs_regex", "GRPOConfig.use_vllm"


def check(context: Context) -> Iterator[Finding]:
    if context.value(PATTERN) is None or context.value(USE_VLLM) is True:
        return
    yield context.finding(
        ID,
        "vllm_structured_outputs_regex does not reach transformers' generation",
        PATTERN,
        because=[
            "TRL hands it to vLLM alone: completions would not keep to it, and nothing would say so",
            f"use_vllm is {str(context.value(USE_VLLM)).lower()}: {context.origin(USE_VLLM)}",
        ],
        fix="use_vllm: true, or remove vllm_structured_outputs_regex",
        patch=[Patch(("trl", "vllm_structured_outputs_regex"), remove=True)],
    )
