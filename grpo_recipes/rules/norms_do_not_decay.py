"""Weight decay spares the same biases and norms on every release.

Up to 4.52 transformers recognizes norms by lists of layer classes, which lack most RMS norms: with `weight_decay` above
0 it shrinks the norms of a fully trained Qwen2, and newer releases do not. The shim `weight_decay_names` selects the
same weights as the newest release.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.settings import Setting

ID = "SHM018"
APPLIES_TO = {"transformers": "<4.53"}
OWNS = ("shims.weight_decay_names",)
READS = ("LoraConfig.exclude_modules",)
DECAY = "GRPOConfig.weight_decay"


def decide(context: Context) -> Iterator[Setting]:
    only_matrices = context.has_section("lora") and not context.settings.under("LoraConfig").get("modules_to_save")
    if context.value(DECAY) != 0 and not only_matrices:
        yield rule_setting(OWNS[0], True, "this transformers decays some norms")
