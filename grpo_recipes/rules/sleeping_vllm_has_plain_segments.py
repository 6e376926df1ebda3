"""A vLLM that sleeps between generations uses an allocator without expandable segments.

vLLM's sleep mode keeps its memory in a separate pool. Up to 0.20, if PYTORCH_CUDA_ALLOC_CONF has
expandable_segments:True, it raises AssertionError ("Expandable segments are not compatible with memory pool") when it
starts, after loading the model; since 0.21 it disables expandable segments for that pool.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context

ID = "VLL005"
APPLIES_TO = {"vllm": "<0.21.0"}
VARIABLE = "PYTORCH_CUDA_ALLOC_CONF"
WANTED = {"GRPOConfig.use_vllm": True, "GRPOConfig.vllm_mode": "colocate", "GRPOConfig.vllm_enable_sleep_mode": True}


def check(context: Context) -> Iterator[Finding]:
    written = str(context.mapping("launch.environment").get(VARIABLE, ""))
    if "expandable_segments:True" not in written:
        return
    if all(key in context.settings and context.value(key) == value for key, value in WANTED.items()):
        path = ("launch", "environment", VARIABLE)
        message = f"{VARIABLE} sets expandable segments, but vLLM's sleep mode is on"
        because = f"vllm {context.stack.version('vllm')} raises AssertionError when it starts"
        yield context.wrong(message, "launch.environment", because, at=path)
