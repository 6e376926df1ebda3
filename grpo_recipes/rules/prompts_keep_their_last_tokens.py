"""A prompt longer than generation.max_prompt_length keeps its last tokens, on every release.

GRPOTrainer had a field of that name up to trl 0.23. trl 0.24 and 0.25 let the tokenizer truncate, which keeps a special
token at the beginning of a prompt; 0.26 and 0.27 still accept the field but never read it; 0.28 removed it. Since 0.24
the shim `max_prompt_length` cuts the tokens of a prompt on the left, after the chat template and before generation, as
the field did, and counts the cut prompts: prompts/clipped_ratio in the metrics. With max_prompt_length: null no prompt
is cut on any release, even if the release's own default is 512.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.settings import Setting

ID = "SHM009"
APPLIES_TO = {"trl": ">=0.24.0"}
OWNS = ("shims.max_prompt_length",)
READS = ("GRPOConfig.max_prompt_length",)


def decide(context: Context) -> Iterator[Setting]:
    length = context.value("GRPOConfig.max_prompt_length")
    if length is not None:
        why = f"trl {context.stack.version('trl')} does not keep the last tokens by itself"
        yield rule_setting(OWNS[0], length, why)
