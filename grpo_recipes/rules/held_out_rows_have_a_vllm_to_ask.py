"""Held-out rows are asked of vLLM where the run has one that can be asked.

`evaluation.use_vllm: true` starts no vLLM: it lets the one of the training answer. Without one nobody is there, and
with TRL before 1.11 a run's vLLM is not asked for single completions with seeds of their own. Rows that call tools are
answered by transformers alone.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._tools.said_tools import turns_of

ID = "EVL007"
KEY = "evaluation.use_vllm"


def check(context: Context) -> Iterator[Finding]:
    if not context.has_section("evaluation") or context.value(KEY) is not True:
        return
    if context.value("evaluation.generated_by") == "vllm":
        return
    generates = context.value("GRPOConfig.use_vllm") is True
    if turns_of(context) is not None:
        why = "the model calls tools, and such rows are answered with transformers"
    elif generates:
        why = f"{context.facts.source('GRPOConfig')}: the worker asks the vLLM of trl 1.11 and newer alone"
    else:
        why = f"generation.use_vllm is false ({context.origin('GRPOConfig.use_vllm')})"
    yield context.finding(
        ID,
        "no vLLM of this run can answer the held-out rows",
        KEY,
        because=[why],
        fix="use_vllm: null, which lets it answer where it can",
        patch=[Patch(("evaluation", "use_vllm"), None)],
    )
