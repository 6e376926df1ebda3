"""A row is padded to the longest row of its micro-batch, not of the whole generation.

TRL pads a whole generation batch to its longest prompt and its longest completion, shuffles it, and cuts it into
micro-batches: with completions as long as GSM8K's, half of what the model computes for scores and updates is padding;
with MATH's, two thirds. The shim `less_padding` sorts the rows that an optimizer step trains by their length, and
scores each micro-batch as wide as its longest row. The gradient is the same, up to about 1e-6 relative in float32. Rows
keep their micro-batch ("packed") for a loss that depends on it: `loss_type: bnpo`, `top_entropy_quantile` below 1, a
bonus for entropy.

The shim applies to model families that score a row the same without its padding; run.json records what it did, and
PRF036 compares its scores with TRL's in the first step. The logged entropy, kl and clip ratios do not depend on the
cut, with or without the shim: they are means over the trained tokens of a step. `--accept SHM025` leaves TRL's padding
unchanged, and so do rows with images.
"""

from collections.abc import Iterator

from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.losses import LOSS, LOSSES, depends_on_the_cut, entropy_bonus
from grpo_recipes.rules._shared.settings import Setting
from grpo_recipes.rules._shared.training_rows import image_columns

ID = "SHM025"
APPLIES_TO = {"trl": ">=0.20"}
OWNS = ("shims.less_padding",)
# A compiled model would be compiled again for each width. Each key alone compiles.
COMPILED = ("GRPOConfig.torch_compile", "GRPOConfig.torch_compile_backend", "GRPOConfig.torch_compile_mode")


def decide(context: Context) -> Iterator[Setting]:
    if any(context.value(key) for key in COMPILED) or context.value(LOSS) not in LOSSES:
        return
    if image_columns(context):
        return  # images of a micro-batch are cut by the number of their rows
    key = depends_on_the_cut(context) or entropy_bonus(context)
    if key is None:
        yield rule_setting(OWNS[0], "sorted", "TRL pads each row to the longest of the generation")
    else:
        why = f"{key.partition('.')[2]} depends on the rows of a micro-batch, so these stay together"
        yield rule_setting(OWNS[0], "packed", why)
