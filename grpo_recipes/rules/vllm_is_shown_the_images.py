"""vLLM answers the prompts with images that the loss trains.

TRL gives vLLM the tokens of a prompt in which each image has all its tokens, and vLLM adds them again: it
answers 42 tokens where the loss has 36. The shim `vllm_images` gives it the prompt as the chat template renders it, and
compares what vLLM made of it with the tokens of the loss, at each generation: the first that differs ends the run. vLLM
also keeps what its vision part made of an image, and would see with the weights of the first generation: the shim
clears that with each hand-over. The token of an image is not sampled.

This was seen in the training process with trl 1.16 and vllm 0.31, for the families that `FAMILIES` lists. With others,
older releases, a server, several processes that share one vLLM, and an adapter that is handed over alone it was not,
and DAT005 refuses them. Transformers answers held-out rows.
"""

from collections.abc import Iterator
from typing import NamedTuple

from grpo_recipes.facts.released.windows import is_within
from grpo_recipes.rules._shared.context import Context, decided
from grpo_recipes.rules._shared.loaded_model import model_config
from grpo_recipes.rules._shared.settings import Setting
from grpo_recipes.rules._shared.training_rows import image_columns
from grpo_recipes.rules._shared.vllms_gpu import is_server_mode

ID = "SHM030"
OWNS = ("shims.vllm_images",)
USE_VLLM, VLLM_MODE, GROUP = "GRPOConfig.use_vllm", "GRPOConfig.vllm_mode", "GRPOConfig.vllm_tensor_parallel_size"
READS = (USE_VLLM, VLLM_MODE, GROUP, "shims.adapter_sync")
FIRST = "1.16.0"
# Families of which vLLM made the tokens and the log-probabilities of the trainer, also after steps that moved all
# weights. Seen: trl 1.16.0, transformers 5.17.0 and vllm 0.31.0 on a CPU.
FAMILIES = ("idefics3", "smolvlm", "qwen2_vl", "qwen2_5_vl")
NAMES = "vllm 0.31 does not know the names that transformers 5 has for the weights of its vision part"
WHY_NOT = {"llava_next": NAMES, "gemma3": NAMES}
_OF_A_SERVER = (
    "with new weights TRL does not clear what a server made of images under older ones, and it goes on with that"
)
_ALONE = "the prompts of several processes are compared nowhere"
_ADAPTER = "nothing has shown that vLLM applies an adapter of a model that sees as PEFT does"
_PROCESSOR = "vLLM would show the policy other images than the trainer, whose processor takes no such arguments"


class _Kept(NamedTuple):
    """What keeps vLLM from seeing images: key, what it is called, why, and the way out."""

    key: str
    what: str
    why: str
    fix: str = "use_vllm: false"


def decide(context: Context) -> Iterator[Setting]:
    if image_columns(context) and context.value(USE_VLLM) is True and not any(images_kept_from_vllm(context)):
        yield decided(OWNS[0], True, "TRL gives vLLM the tokens of images, and vLLM adds them once more")


def images_kept_from_vllm(context: Context) -> Iterator[_Kept]:
    """Everything that keeps vLLM from answering prompts with images as the loss has them."""
    trl, config = context.stack.version("trl"), model_config(context)
    if trl is not None and is_within(trl, f"<{FIRST}"):
        why = "nothing has shown that vLLM answers the prompt that it trains"
        yield _Kept(USE_VLLM, f"use_vllm on trl {trl}", why, f"use_vllm: false, or trl>={FIRST}")
    family = None if config is None else config.get("model_type")
    if isinstance(family, str) and family not in FAMILIES:
        why = WHY_NOT.get(family, "nothing has shown that vLLM sees with it as the trainer does")
        yield _Kept(USE_VLLM, f"use_vllm and {family}", why)
    if is_server_mode(context):
        yield _Kept(VLLM_MODE, "a vLLM server", _OF_A_SERVER, "vllm_mode: colocate")
    if context.value(GROUP) not in (None, 1, "auto"):
        yield _Kept(GROUP, "vllm_tensor_parallel_size", _ALONE, "vllm_tensor_parallel_size: 1")
    if context.value("shims.adapter_sync") is not None:
        yield _Kept("generation.weight_sync", "weight_sync: adapter", _ADAPTER, "weight_sync: full, of 16 bits")
    if "mm_processor_kwargs" in context.mapping("generation.vllm_engine"):
        fix = "remove mm_processor_kwargs; dataset.max_pixels scales images for both"
        yield _Kept("generation.vllm_engine", "mm_processor_kwargs", _PROCESSOR, fix)
