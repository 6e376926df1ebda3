"""Completions of the same prompt can differ.

GRPO learns from the difference of rewards within a group. If sampling always takes the most likely token, all
completions of a group are the same, every advantage is 0, and the run trains nothing while it looks healthy: loss 0,
gradient 0, frac_reward_zero_std 1. top_k 1 and min_p 1 leave one token; a temperature or a top_p close to 0 has nearly
the same effect.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context

ID = "GRP001"
NEARLY = 0.01
"""A temperature or top_p up to this leaves one token in practice, for any model."""


def check(context: Context) -> Iterator[Finding]:
    if context.value("GRPOConfig.top_k") == 1:
        yield _greedy(context, "top_k", 0)
    if context.value("GRPOConfig.min_p") == 1:
        yield _greedy(context, "min_p", None)
    for name in ("temperature", "top_p"):
        value = context.value(f"GRPOConfig.{name}")
        if isinstance(value, int | float) and value <= NEARLY:
            yield _greedy(context, name, 1.0, nearly=True)


def _greedy(context: Context, name: str, better: object, *, nearly: bool = False) -> Finding:
    return context.wrong(
        f"{name} {context.value(f'GRPOConfig.{name}')} {'hardly leaves' if nearly else 'leaves'} the completions"
        f" of a prompt {'room to differ' if nearly else 'no room to differ'}",
        f"GRPOConfig.{name}",
        "GRPO compares rewards within a group; if all are equal, nothing is trained",
        better,
        severity="warning" if nearly else "error",
    )
