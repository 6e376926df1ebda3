"""Rows without an image are trained as text among rows with images.

A row is text if each column that `dataset.images` names is null or an empty list. TRL raises TypeError for a batch in
which some rows have no image. The shim `text_rows` gives each row of a micro-batch its own images, and leaves a
micro-batch of text without images. A row's log-probabilities are those of the row alone, within 2e-6 (Idefics3,
SmolVLM, LLaVA-NeXT, Gemma 3, Qwen2-VL, Qwen2.5-VL and Qwen3.5, trl 1.16). Nothing changes if every row has an image.

Otherwise preflight and the run stop at the first row without an image, with the reason: older releases of TRL raise
IndexError or silently train on a different image, vLLM and other families have not been tested, PaliGemma's processor
does not accept text alone, and Gemma 4's pads shorter prompts as if the padding was text. ZeRO and FSDP2 expect every
process to run the same layers, and a batch of text skips the vision part: processes would exchange different tensors,
or wait forever.
"""

from collections.abc import Iterator

from grpo_recipes.contract.prompt_shape import TEXT_BESIDE_IMAGES
from grpo_recipes.facts.released.windows import is_within
from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.loaded_model import model_config
from grpo_recipes.rules._shared.settings import Setting
from grpo_recipes.rules._shared.training_rows import image_columns

ID = "SHM031"
OWNS = ("shims.text_rows",)
USE_VLLM, STRATEGY, FIRST = "GRPOConfig.use_vllm", "distributed.strategy", "1.16.0"
READS = (USE_VLLM, STRATEGY)
SHARDED = {"zero": "ZeRO", "fsdp": "FSDP2"}


def decide(context: Context) -> Iterator[Setting]:
    if not image_columns(context):
        return
    why = _why_not(context)
    if why is None:
        yield rule_setting(OWNS[0], True, "TRL raises TypeError for a batch in which some rows have no image")
    else:
        yield rule_setting(OWNS[0], why, "rows without an image are refused")


def _why_not(context: Context) -> str | None:
    """Why each row needs an image, None if rows may be text."""
    trl, config = context.stack.version("trl"), model_config(context)
    family = None if config is None else config.get("model_type")
    if trl is not None and is_within(trl, f"<{FIRST}"):
        return (
            f"trl {trl} raises IndexError for a batch with some, or trains on a different image than it generates with"
        )
    if context.value(USE_VLLM) is True:
        return "nothing has shown that vLLM answers such rows as the loss trains them"
    for strategy, name in SHARDED.items():
        if str(context.value(STRATEGY)).startswith(strategy):
            return f"{name} expects every process to run the same layers, and a batch of text skips the vision part"
    return None if family is None or family in TEXT_BESIDE_IMAGES else f"nothing has shown that {family} trains them"
