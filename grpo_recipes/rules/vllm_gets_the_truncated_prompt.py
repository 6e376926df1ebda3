"""vLLM generates from the same truncated prompt that the loss uses.

TRL before 0.19 cuts the token ids of a prompt to generation.max_prompt_length but gives vLLM the whole text. The shim
`vllm_prompts` cuts the prompts before vLLM sees them. vLLM in the training processes gets the trainer's own token ids.
TRL's server of these releases takes only texts: the shim sends a cut prompt as the text of its last tokens, and stops
the run at the first prompt that the server would tokenize differently, for example because its tokenizer begins every
text with a special token. Prompts that are short enough are sent unchanged.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.settings import Setting
from grpo_recipes.rules._shared.vllms_gpu import is_server_mode

ID = "SHM021"
APPLIES_TO = {"trl": "<0.19.0"}
LENGTH = "GRPOConfig.max_prompt_length"
OWNS = ("shims.vllm_prompts",)
READS = ("GRPOConfig.use_vllm", LENGTH)


def decide(context: Context) -> Iterator[Setting]:
    length = context.value(LENGTH)
    if length is not None and context.value("GRPOConfig.use_vllm") is True:
        why = f"trl {context.stack.version('trl')} gives vLLM the whole prompt"
        yield rule_setting(OWNS[0], length, why)


def check(context: Context) -> Iterator[Finding]:
    if context.value(LENGTH) is not None and is_server_mode(context):
        message = f"not checked: whether prompts longer than {context.value(LENGTH)} tokens can be cut for the server"
        because = (
            "the server takes only text, and the run stops at the first prompt whose cut text gives different tokens"
        )
        yield context.not_checked(message, LENGTH, because)
