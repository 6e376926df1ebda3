"""`evaluation.use_vllm: true` needs training that uses vLLM.

It does not start vLLM: the vLLM used for training also generates the held-out completions. Without one, nothing can
generate them, and with TRL before 1.11 the worker cannot request single completions with their own seeds. For rows that
call tools or have images, only transformers generates.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding, Patch
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.said_tools import turns_of
from grpo_recipes.rules._shared.training_rows import image_columns

ID = "EVL007"
KEY = "evaluation.use_vllm"


def check(context: Context) -> Iterator[Finding]:
    if not context.has_section("evaluation") or context.value(KEY) is not True:
        return
    if context.value("evaluation.generated_by") == "vllm":
        return
    generates = context.value("GRPOConfig.use_vllm") is True
    if turns_of(context) is not None:
        why = "the model calls tools, and only transformers answers these rows"
    elif image_columns(context):
        why = "the rows have images, and only transformers answers these rows"
    elif generates:
        why = f"{context.facts.source('GRPOConfig')}: the worker can use vLLM for evaluation only since trl 1.11"
    else:
        why = f"generation.use_vllm is false ({context.origin('GRPOConfig.use_vllm')})"
    message = "evaluation.use_vllm needs a vLLM, and this run has none for held-out rows"
    fix = "use_vllm: null, which uses vLLM if possible"
    yield context.finding(message, KEY, why, fix=fix, patch=[Patch(("evaluation", "use_vllm"), None)])
