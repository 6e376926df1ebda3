"""vLLM generates from the same prompts with images that the loss uses.

TRL gives vLLM the tokens of a prompt that already includes all tokens of each image, and vLLM adds them again: vLLM
reads 42 tokens where the loss has 36. The shim `vllm_images` gives vLLM the prompt as the chat template renders it. At
each generation it compares vLLM's tokens with those of the loss, and the first difference ends the run. vLLM also
caches the output of its vision part, which would stay that of the first generation's weights; the shim clears this
cache whenever vLLM gets new weights. The token of an image is not sampled. This was tested in the training process with
trl 1.16 and vllm 0.31, for the families in `FAMILIES`. DAT005 refuses everything that was not tested: other families,
older releases, a server, several processes that share one vLLM, and `weight_sync: adapter`. For held-out rows,
transformers generates the completions.
"""

from collections.abc import Iterator
from typing import NamedTuple

from grpo_recipes.facts.released.windows import is_within
from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.loaded_model import model_config
from grpo_recipes.rules._shared.settings import Setting
from grpo_recipes.rules._shared.training_rows import image_columns
from grpo_recipes.rules._shared.vllms_gpu import is_server_mode

ID = "SHM030"
OWNS = ("shims.vllm_images",)
USE_VLLM, VLLM_MODE, GROUP = "GRPOConfig.use_vllm", "GRPOConfig.vllm_mode", "GRPOConfig.vllm_tensor_parallel_size"
READS = (USE_VLLM, VLLM_MODE, GROUP, "shims.adapter_sync")
FIRST = "1.16.0"
# Families for which vLLM's tokens and log-probabilities equal the trainer's, also after steps that changed all
# weights. Tested with trl 1.16.0, transformers 5.17.0 and vllm 0.31.0 on a CPU.
FAMILIES = ("idefics3", "smolvlm", "qwen2_vl", "qwen2_5_vl")
NAMES = "vllm 0.31 does not know transformers 5's names for the weights of its vision part"
WHY_NOT = {"llava_next": NAMES, "gemma3": NAMES}
_OF_A_SERVER = "with new weights TRL does not clear the server's cache of images, so it keeps using old results"
_ALONE = "nothing compares the prompts of several processes"
_ADAPTER = "no test shows that vLLM applies an adapter of a vision-language model as PEFT does"
_PROCESSOR = "vLLM would scale images differently from the trainer, whose processor takes no such arguments"


class _Kept(NamedTuple):
    """What keeps vLLM from seeing images: the key, its name in the message, why, and the fix."""

    key: str
    what: str
    why: str
    fix: str = "use_vllm: false"


def decide(context: Context) -> Iterator[Setting]:
    if image_columns(context) and context.value(USE_VLLM) is True and not any(images_kept_from_vllm(context)):
        yield rule_setting(OWNS[0], True, "TRL gives vLLM the tokens of images, and vLLM adds them again")


def images_kept_from_vllm(context: Context) -> Iterator[_Kept]:
    """Everything that keeps vLLM from answering prompts with images as the loss has them."""
    trl, config = context.stack.version("trl"), model_config(context)
    if trl is not None and is_within(trl, f"<{FIRST}"):
        why = "no test shows that vLLM and the loss of this TRL use the same prompt"
        yield _Kept(USE_VLLM, f"use_vllm on trl {trl}", why, f"use_vllm: false, or trl>={FIRST}")
    family = None if config is None else config.get("model_type")
    if isinstance(family, str) and family not in FAMILIES:
        why = WHY_NOT.get(family, "no test shows that vLLM reads images like the trainer for this family")
        yield _Kept(USE_VLLM, f"use_vllm and {family}", why)
    if is_server_mode(context):
        yield _Kept(VLLM_MODE, "a vLLM server", _OF_A_SERVER, "vllm_mode: colocate")
    if context.value(GROUP) not in (None, 1, "auto"):
        yield _Kept(GROUP, "vllm_tensor_parallel_size", _ALONE, "vllm_tensor_parallel_size: 1")
    if context.value("shims.adapter_sync") is not None:
        yield _Kept(
            "generation.weight_sync", "weight_sync: adapter", _ADAPTER, "weight_sync: full, with a 16-bit model"
        )
    if "mm_processor_kwargs" in context.mapping("generation.vllm_engine"):
        fix = "remove mm_processor_kwargs; dataset.max_pixels scales images for both"
        yield _Kept("generation.vllm_engine", "mm_processor_kwargs", _PROCESSOR, fix)
