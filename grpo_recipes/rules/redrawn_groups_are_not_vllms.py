"""Before TRL 0.24, groups that vLLM completes cannot be redrawn.

resample_groups gives TRL the completions that it keeps in the place of new ones. TRL 0.24 generates in a method of its
own, whatever generates; in older releases only what transformers generates can be replaced.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules.groups_can_be_redrawn import RESAMPLE

ID = "TRN011"
APPLIES_TO = {"trl": ">=0.19,<0.24"}


def check(context: Context) -> Iterator[Finding]:
    if context.value(RESAMPLE) != 0 and context.value("GRPOConfig.use_vllm") is True:
        said = "resample_groups with vLLM needs trl 0.24 or newer"
        because = f"trl {context.stack.version('trl')} asks vLLM where it also scores"
        yield context.wrong(said, RESAMPLE, because, 0, fix="resample_groups: 0, or trl==0.24.0")
