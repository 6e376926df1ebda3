"""With auto, vLLM's share of the GPUs and its context are as large as the recipe needs.

`vllm_tensor_parallel_size: auto` is 1 if the weights fit into vLLM's share, otherwise the smallest number that makes
them fit and divides both the processes of a node and the attention heads; processes of different nodes never share a
model. `vllm_max_model_length: auto` is max_prompt_length + max_completion_length: the model's own context is often much
longer, and vLLM does not start without a cache that holds one request of that length. Without max_prompt_length vLLM
uses the model's own context. `vllm_gpu_memory_utilization: auto` adds up vLLM's needs: its copy of the weights, the
cache of keys and values for one generation at full length, and 4 GiB for itself (public measurements: 1.5 to 4). Two
limits apply: what the trainer's weights, gradients and optimizer states leave free, and what everything held at the
same time leaves of 0.85 of the GPU, as `grpo-run fit` estimates. It is never less than vLLM needs to start. If the
model or the GPU is unknown, or nothing fits, all three keep TRL's defaults.
"""

from collections.abc import Iterator
from math import ceil, floor
from typing import NamedTuple

from grpo_recipes.rules._shared.context import Context, rule_setting
from grpo_recipes.rules._shared.fitting import FILLED, IN_AN_UPDATE, share_needed
from grpo_recipes.rules._shared.loaded_model import model_config
from grpo_recipes.rules._shared.machines import GIB
from grpo_recipes.rules._shared.settings import Setting
from grpo_recipes.rules.vllms_share_holds_the_model import BYTES, MOST, Sizes, sizes
from grpo_recipes.user_files.model_config import numbers_per_token

ID = "VLL004"
TENSOR_PARALLEL = "GRPOConfig.vllm_tensor_parallel_size"
LENGTH = "GRPOConfig.vllm_max_model_length"
SHARE = "GRPOConfig.vllm_gpu_memory_utilization"
OWNS = (TENSOR_PARALLEL, LENGTH, SHARE)
READS = (
    "LoraConfig.exclude_modules",
    "GRPOConfig.use_vllm",
    "GRPOConfig.vllm_mode",
    "GRPOConfig.gradient_accumulation_steps",
    "GRPOConfig.gradient_checkpointing",
    "GRPOConfig.max_prompt_length",
    "GRPOConfig.per_device_train_batch_size",
    "GRPOConfig.steps_per_generation",
    "distributed.strategy",
    "world.all_gpus",
    "world.device",
    "world.num_processes",
)
OWN_SHARE = 0.3
"""TRL's default."""
OVERHEAD, LEAST_OVERHEAD = 4.0, 1.5
"""GiB that vLLM takes in addition to weights and cache, at most and at least."""
GENERATING = ("generate",)
COMPLETION, STEPS = "GRPOConfig.max_completion_length", "GRPOConfig.steps_per_generation"
UNREAD: dict[str, object] = {TENSOR_PARALLEL: 1, LENGTH: None, SHARE: OWN_SHARE}


class Cache(NamedTuple):
    """GiB of keys and values: of the longest request, without which vLLM does not start, and of a whole generation.

    A prompt of unknown length counts as much as its completion.
    """

    least: float
    wanted: float


def decide(context: Context) -> Iterator[Setting]:
    chosen = {TENSOR_PARALLEL: _size, LENGTH: _length, SHARE: _share}
    settings = context.settings
    for key, decision in chosen.items():
        if context.value(key) != "auto":
            continue
        now = context._replace(settings=settings)
        value, why = decision(now) if _is_read(context, key) else (UNREAD[key], "the run does not use it")
        setting = rule_setting(key, value, why)
        settings = settings.having([setting])
        yield setting


def _is_read(context: Context, key: str) -> bool:
    """A run's server has its GPUs and its share of them for itself, and the same context."""
    mode = context.value("GRPOConfig.vllm_mode")
    return context.value("GRPOConfig.use_vllm") is True and (mode == "colocate" or key == LENGTH)


def _size(context: Context) -> tuple[int, str]:
    budget = sizes(context)
    if budget is None:
        return 1, "the model or the GPUs are unknown"
    beside_the_trainer = (budget.memory - _trainer(context, budget)) / 2
    room = beside_the_trainer if context.value(SHARE) == "auto" else budget.share - LEAST_OVERHEAD
    weights = budget.width * budget.parameters / GIB
    if weights <= room:
        return 1, f"{weights:.1f} GiB of weights fit into {room:.1f} GiB of one GPU"
    processes, config = context.whole("world.num_processes"), model_config(context) or {}
    heads = config.get("num_attention_heads")
    for size in range(2, processes + 1):
        divides = processes % size == 0 and isinstance(heads, int) and heads % size == 0
        if divides and weights / size <= room:
            return (
                size,
                f"{weights:.1f} GiB of weights do not fit into {room:.1f} GiB of one GPU, but into {size} GPUs",
            )
    return 1, f"no number of the {processes} processes makes {weights:.1f} GiB of weights fit"


def _length(context: Context) -> tuple[int | None, str]:
    prompt, completion = context.value("GRPOConfig.max_prompt_length"), context.whole(COMPLETION)
    if not isinstance(prompt, int):
        return None, "max_prompt_length is not set, so prompts may be as long as the model's context"
    own = (model_config(context) or {}).get("max_position_embeddings")
    if isinstance(own, int) and own < prompt + completion:
        return None, f"the model's own {own} tokens are fewer than {prompt} + {completion}"
    return prompt + completion, f"max_prompt_length {prompt} + max_completion_length {completion}"


def _share(context: Context) -> tuple[float, str]:
    budget = sizes(context)
    cache = _cache(context, budget) if budget is not None else None
    if budget is None or cache is None:
        return OWN_SHARE, "TRL's default: the model or the GPUs are unknown"
    needed = budget.copy + cache.wanted + OVERHEAD
    least = budget.copy + cache.least + LEAST_OVERHEAD
    at_start = budget.memory - _trainer(context, budget)
    free = min(at_start, max(least, _spare_memory(context, budget)))
    hundredths = min(ceil(100 * min(needed, free) / budget.memory), floor(100 * min(at_start / budget.memory, MOST)))
    if hundredths * budget.memory / 100 < least:
        return OWN_SHARE, f"TRL's default: vLLM needs {needed:.1f} GiB, and the trainer leaves {free:.1f}"
    parts = f"{budget.copy:.1f} GiB of weights + {cache.wanted:.1f} of keys and values + {OVERHEAD:g}"
    left = f"; the trainer leaves {free:.1f}" if free < needed else ""
    return hundredths / 100, f"{parts}, of {budget.memory:g} GiB{left}"


def _spare_memory(context: Context, budget: Sizes) -> float:
    """GiB that nothing else needs while vLLM runs; the whole GPU if unknown."""
    sleeps = context.value("GRPOConfig.vllm_enable_sleep_mode") is True
    other = share_needed(context, {SHARE: 0.0}, READS, GENERATING if sleeps else (*GENERATING, *IN_AN_UPDATE))
    return budget.memory if other is None else (FILLED - other) * budget.memory


def _cache(context: Context, budget: Sizes) -> Cache | None:
    """None if the model's context, its sizes or the batch are unknown."""
    config = model_config(context) or {}
    numbers, own = numbers_per_token(config), config.get("max_position_embeddings")
    length, completion = context.value(LENGTH), context.whole(COMPLETION)
    batch, steps = context.value("GRPOConfig.per_device_train_batch_size"), context.value(STEPS)
    longest = length if isinstance(length, int) else own
    if numbers is None or not isinstance(batch, int) or not isinstance(longest, int):
        return None
    of_a_token = numbers * budget.width / GIB
    tokens = longest if isinstance(length, int) else min(longest, 2 * completion)
    at_once = batch * (steps if isinstance(steps, int) else 1)
    least = of_a_token * longest
    return Cache(least, max(least, of_a_token * tokens * at_once))


def _trainer(context: Context, budget: Sizes) -> float:
    """GiB of weights, gradients and optimizer states on each GPU; of a sharded model only this process' part."""
    if context.has_section("lora"):
        return budget.trainer
    width = BYTES.get(str(context.value("model_init_kwargs.dtype") or "float32"), 4)
    whole = 4 * width * budget.parameters / GIB
    is_whole = context.value("distributed.strategy") in ("single", "ddp")
    return whole if is_whole else whole / context.whole("world.num_processes")
