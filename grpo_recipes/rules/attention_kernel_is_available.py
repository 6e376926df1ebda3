"""The attention kernel that a recipe asks for is available.

transformers supports eager, sdpa, flex_attention, the flash_attention_ family and hub kernels by name
(kernels-community/flash-attn2). A misspelt word raises ValueError, and a kernel without its package or its hardware
raises ImportError, both in the middle of loading the model. flash_attention_2 needs the package flash-attn, or
`kernels` to fetch it from the hub. Any flash attention needs a GPU of capability 8.0 or newer and 16-bit numbers: with
float32 weights and no autocast the kernel refuses the first forward pass, and with an adapter autocast does not cover
generation by transformers. `auto` leaves the choice to transformers, which takes sdpa.
"""

import re
from collections.abc import Iterator

from grpo_recipes.contract.findings.finding import Finding
from grpo_recipes.contract.findings.wording import nearest_words
from grpo_recipes.rules._shared.context import Context
from grpo_recipes.rules._shared.machines import UNKNOWN_GPUS, gpus_in_use

ID = "MDL002"
KEY, DTYPE = "model_init_kwargs.attn_implementation", "model_init_kwargs.dtype"
USE_VLLM = "GRPOConfig.use_vllm"
WORDS = ("eager", "sdpa", "flex_attention", "flash_attention_2", "flash_attention_3", "flash_attention_4")
# Other names that programs and people use for common kernels.
OTHER_WORDS = ("fa2", "flash", "flash2", "flash_attn", "flash_attn_2", "flash_attention")
OLDEST_GPU = (8, 0)


def check(context: Context) -> Iterator[Finding]:
    word = context.value(KEY)
    if not isinstance(word, str) or word == "auto":
        return
    if word not in WORDS:
        # A kernel of the hub, a variant for paged memory, or a name from the model's own code.
        if not re.search(r"[/|]|_paged$", word) and context.value("GRPOConfig.trust_remote_code") is not True:
            yield _no_such_kernel(context, word)
    elif word.startswith("flash"):
        yield from _flash(context, word)


def _no_such_kernel(context: Context, word: str) -> Finding:
    lowered = word.lower().replace("-", "_")
    close = ["flash_attention_2"] if lowered in OTHER_WORDS else nearest_words(lowered, WORDS, cutoff=0.7)
    because = f"transformers supports {', '.join(WORDS)} and kernels of the hub; it raises ValueError while loading"
    return context.wrong(f"{word} is not an attention kernel", KEY, because, close[0] if close else "auto")


def _flash(context: Context, word: str) -> Iterator[Finding]:
    if context.value("world.device") == "cpu":
        because = context.settings["world.device"].why
        yield context.wrong(f"{word} needs a GPU, but this run is on the CPU", KEY, because, "sdpa")
        return
    old = next((g for g in gpus_in_use(context) or () if g.capability is not None and g.capability < OLDEST_GPU), None)
    if old is not None and old.capability is not None:
        because = f"{old.name} has capability {old.capability[0]}.{old.capability[1]}, and the kernel refuses it"
        yield context.wrong(f"{word} needs a GPU of capability 8.0", KEY, because, "sdpa")
        return
    if gpus_in_use(context) is None:
        message = f"whether the GPUs of {context.stack.origin} run {word} is unknown"
        yield context.not_checked(message, KEY, UNKNOWN_GPUS)
    if word == "flash_attention_2":
        yield from _package(context, word)
    if context.value(DTYPE) == "float32" and not context.has_section("quantization"):
        yield from _whole(context, word)


def _whole(context: Context, word: str) -> Iterator[Finding]:
    """Findings for float32 weights."""
    is_autocast = any(context.value(f"GRPOConfig.{name}") is True for name in ("bf16", "fp16"))
    # DeepSpeed casts the model itself, FSDP2 what it gathers.
    is_in_autocast = context.value("distributed.strategy") not in ("single", "ddp")
    if is_autocast and (is_in_autocast or not context.has_section("lora") or context.value(USE_VLLM) is True):
        return
    message = f"{word} needs 16-bit numbers, but the model is in float32 without autocast"
    if is_autocast:
        message = f"{word} needs 16-bit numbers, but generation with the adapter uses float32"
    because = 'the kernel raises "FlashAttention only support fp16 and bf16 data type" at the first completion'
    if context.has_section("lora"):
        yield context.wrong(message, KEY, because, "bfloat16", at=("model", "dtype"))
    else:  # all weights are trained, in float32 (PRE002)
        yield context.wrong(message, KEY, because, True, at=("training", "bf16"))


def _package(context: Context, word: str) -> Iterator[Finding]:
    if any(context.stack.version(package) is not None for package in ("flash-attn", "kernels")):
        return
    if context.stack.is_absent("flash-attn") and context.stack.is_absent("kernels"):
        because = "transformers raises ImportError while loading the model"
        yield context.wrong(f"{word} needs flash-attn or kernels, but neither is installed", KEY, because, "sdpa")
    else:
        message = "not checked: whether flash-attn or kernels is installed"
        origin = f"{context.stack.origin} does not say"
        yield context.not_checked(message, KEY, origin)
