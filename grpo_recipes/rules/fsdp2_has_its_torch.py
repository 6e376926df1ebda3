"""FSDP2 needs torch 2.6 or newer.

accelerate shards with torch's fully_shard, which got its final form in torch 2.6. With an older torch, accelerate
raises ImportError in every process when it creates its plugin.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context

ID = "FSD001"
APPLIES_TO = {"torch": "<2.6"}


def check(context: Context) -> Iterator[Finding]:
    if context.text("distributed.strategy") == "fsdp2" and context.value("world.device") == "cuda":
        message = f"fsdp2 needs a newer torch than {context.stack.version('torch')}"
        because = "accelerate raises ImportError: FSDP2 requires PyTorch >= 2.6.0"
        yield context.wrong(message, "distributed.strategy", because, "zero3", fix="torch==2.6.0, or strategy: zero3")
