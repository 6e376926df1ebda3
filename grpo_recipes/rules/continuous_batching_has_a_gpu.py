"""Continuous batching runs on a GPU.

transformers sizes the cache of continuous batching by the device's free memory, which on a CPU is the machine's memory.
A step of the quickstart took 11 s and 5.9 GiB with continuous batching, and 0.7 s and 0.6 GiB without it.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context

ID = "MEM003"
APPLIES_TO = {"trl": ">=1.7"}
CONTINUOUS = "GRPOConfig.use_transformers_continuous_batching"


def check(context: Context) -> Iterator[Finding]:
    if context.value(CONTINUOUS) is True and context.value("world.device") == "cpu":
        message = "use_transformers_continuous_batching is slow and needs a lot of memory on a CPU"
        because = "its cache fills the machine's memory: a step of the quickstart takes 11 s, and 0.7 s without it"
        yield context.wrong(message, CONTINUOUS, because, False, severity="warning")
