"""Prompts are cut at one length, and counted only if their length is known.

`dataset.max_prompt_tokens: {limit: 1024, over: cut}` means the same as `generation.max_prompt_length: 1024`: the rule
sets that key, with all its effects on each release. If you write both, one of the two numbers has no effect. With
`over: drop` and `over: error`, both have an effect: rows above the limit are dropped or end the run, and
max_prompt_length keeps the last tokens of the others.

An environment extends a prompt when it is reset, and the prompt also describes its methods. The final length is
therefore unknown while rows are selected, so `over: drop`, `over: error` and prompt_tokens in `dataset.filter` are not
available.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.settings import Setting

ID = "DAT011"
LENGTH, FILTER = "GRPOConfig.max_prompt_length", "dataset.filter"
OWNS = (LENGTH,)
LIMIT, OVER = "dataset.max_prompt_tokens.limit", "dataset.max_prompt_tokens.over"


def decide(context: Context) -> Iterator[Setting]:
    if _cuts(context) and context.value(LENGTH) is None:
        yield rule_setting(LENGTH, context.whole(LIMIT), "dataset.max_prompt_tokens cuts longer prompts")


def check(context: Context) -> Iterator[Finding]:
    if _cuts(context) and context.is_given(LENGTH) and context.value(LENGTH) is not None:
        yield context.finding(
            "max_prompt_tokens and max_prompt_length set two lengths for prompts",
            OVER,
            f"over: cut means max_prompt_length: {context.value(LIMIT)}, but the recipe sets {context.value(LENGTH)}",
            fix="remove max_prompt_tokens",
            patch=[Patch(("dataset", "max_prompt_tokens"), remove=True)],
        )
    counts = LIMIT in context.settings and not _cuts(context)
    if context.has_section("environment") and (counts or "prompt_tokens" in str(context.value(FILTER))):
        because = "reset extends a prompt only when its row is trained on"
        key = LIMIT if counts else FILTER
        yield context.finding(
            "prompts of an environment have an unknown length", key, because, fix="filter by columns only"
        )


def _cuts(context: Context) -> bool:
    return LIMIT in context.settings and context.value(OVER) == "cut"
