"""Held-out completions are transformers', also where the training generates with vLLM.

vLLM draws from random numbers that go on from request to request, a server's in a process of its own, and keeps what it
computed of a prompt for the next one. An evaluation in between would move the numbers and fill the cache, and the
training would be another one than without it. So the plan says who generates what is held out. It costs time: with long
completions take fewer rows (`max_rows`) or larger `every_steps`.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, decided
from grpo_recipes.settings import Setting

ID = "EVL006"
GENERATED_BY = "evaluation.generated_by"
OWNS = (GENERATED_BY,)
READS = ("GRPOConfig.use_vllm",)


def decide(context: Context) -> Iterator[Setting]:
    if context.has_section("evaluation") and context.value("GRPOConfig.use_vllm") is True:
        why = "vLLM's random numbers and caches are the training's"
        yield decided(GENERATED_BY, "transformers", ID, why, context.settings)
