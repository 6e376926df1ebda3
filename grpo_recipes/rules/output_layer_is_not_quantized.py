"""The output layer of a quantized model keeps its precision.

transformers does not quantize the output layer, unless `llm_int8_skip_modules` names other modules: the list replaces
that default, for 4 bits too. If lm_head is missing from it, the output layer is quantized, unless it shares its weights
with the embedding. TRL 1.16 multiplies the hidden states by these weights itself, and silently uses raw 8-bit integers
as weights. Measured: the entropy of an untrained model falls from that of guessing to almost nothing, and the loss uses
different probabilities than sampling did.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import is_quantized

ID = "QNT006"
SKIPPED = "BitsAndBytesConfig.llm_int8_skip_modules"


def check(context: Context) -> Iterator[Finding]:
    skipped = context.value(SKIPPED)
    if not is_quantized(context) or not isinstance(skipped, list):
        return
    if any("lm_head" in str(name) or "embed_out" in str(name) for name in skipped):
        return
    names = [*skipped, "lm_head"]
    message = "llm_int8_skip_modules lacks lm_head, so the output layer is quantized"
    yield context.wrong(message, SKIPPED, "the list replaces transformers' default, the output layer", names)
