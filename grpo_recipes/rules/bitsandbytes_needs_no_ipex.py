"""A quantized model loads on a CPU without Intel's extension for PyTorch.

Up to 4.52 transformers refuses bitsandbytes on a CPU without that extension. bitsandbytes does not need it: 0.50.2
trains there. The shim `bnb_without_ipex` tells transformers that the extension is present.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.loaded_model import is_quantized
from grpo_recipes.rules._shared.settings import Setting

ID = "SHM017"
APPLIES_TO = {"transformers": "<4.53", "bitsandbytes": ">=0.50"}
OWNS = ("shims.bnb_without_ipex",)
READS = ("world.device",)


def decide(context: Context) -> Iterator[Setting]:
    if is_quantized(context) and context.value("world.device") == "cpu":
        yield rule_setting(OWNS[0], True, "this transformers asks for an extension that is not needed")
