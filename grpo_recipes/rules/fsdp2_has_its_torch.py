"""FSDP2 has a torch that it is part of.

accelerate shards with torch's fully_shard, which torch has in its final form from 2.6 on. With an older one accelerate
raises ImportError when its plugin is made, in every process.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.context import Context

ID = "FSD001"
APPLIES_TO = {"torch": "<2.6"}


def check(context: Context) -> Iterator[Finding]:
    if context.text("distributed.strategy") == "fsdp2" and context.value("world.device") == "cuda":
        yield context.finding(
            ID,
            f"fsdp2 needs a newer torch than {context.stack.version('torch')}",
            "distributed.strategy",
            because=["accelerate raises ImportError: FSDP2 requires PyTorch >= 2.6.0"],
            fix="torch==2.6.0, or strategy: zero3",
            patch=[Patch(("distributed", "strategy"), "zero3")],
        )
