"""bitsandbytes is new enough for transformers.

transformers 5.23 raises ImportError for bitsandbytes below 0.46.1 when it begins to load a quantized model. Its
metadata does not declare that minimum, so pip silently installs an older release.
"""

from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.loaded_model import is_quantized
from grpo_recipes.rules._shared.machines import command_for

ID = "QNT007"
APPLIES_TO = {"transformers": ">=5.23", "bitsandbytes": "<0.46.1"}


def check(context: Context) -> Iterator[Finding]:
    if is_quantized(context):
        message = f"bitsandbytes {context.stack.version('bitsandbytes')} is too old to load a quantized model"
        because = f"transformers {context.stack.version('transformers')} raises ImportError below 0.46.1"
        fix = command_for(context.stack, ["bitsandbytes>=0.46.1"])
        yield context.finding(message, "quantization", because, fix=fix)
